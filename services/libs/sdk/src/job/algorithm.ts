// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { z } from "zod";

import { enumName, type JobDocument, present } from "./document.ts";

/** AdamW, and how a batch is cut: the same for every algorithm. */
export interface OptimizerOptions {
  /** Above 0, at most 1. Default 1e-5. */
  readonly learningRate?: number | undefined;
  /** AdamW's two, each in [0, 1). Default [0.9, 0.95]. */
  readonly betas?: readonly [beta1: number, beta2: number] | undefined;
  /** Default 0. */
  readonly weightDecay?: number | undefined;
  /** Norm that the gradient is clipped to. Default 1. */
  readonly gradientClip?: number | undefined;
  /** Batches over which the rate grows from 0. Default 0. */
  readonly warmupSteps?: number | undefined;
  /** What the rate falls to, linearly, at the last step, as a share of `learningRate`, [0, 1]. Default 1: constant. */
  readonly finalRateShare?: number | undefined;
  /** Passes over the batch. Default 1. */
  readonly epochs?: number | undefined;
  /** Optimizer steps a pass; rows are shuffled among them. Default 1. */
  readonly miniBatches?: number | undefined;
  /** Most tokens of one forward pass, padding included. Changes no gradient. Default 16,384. */
  readonly microBatchTokens?: number | undefined;
}

/** How token losses become one number. Names: verl's core_algos.agg_loss. */
export type LossAggregation =
  "token-mean" | "token-sum" | "seq-mean-token-sum" | "seq-mean-token-sum-norm" | "seq-mean-token-mean";

/** Group relative policy optimization. Sources: arXiv 2402.03300 (GRPO), 2503.14476 (clip-higher, token mean). */
export interface GrpoOptions extends OptimizerOptions {
  /** Episodes a task, at least 2. */
  readonly groupSize: number;
  /** The ratio is clipped to [1 - low, 1 + high]; one number is both. Default [0.2, 0.2]. */
  readonly clip?: number | readonly [low: number, high: number] | undefined;
  /** Bound of the loss of a negative advantage, above 1, or 0 for off. Default 0. */
  readonly dualClip?: number | undefined;
  /** Divide the advantage by the group's standard deviation. Default true; false is Dr.GRPO's advantage. */
  readonly normalizeByStd?: boolean | undefined;
  /** Weight of the entropy bonus. Default 0. */
  readonly entropyCoefficient?: number | undefined;
  /** Default "token-mean". */
  readonly lossAggregation?: LossAggregation | undefined;
  /** Only for "seq-mean-token-sum-norm". Default: the batch's longest row. */
  readonly lossScaleFactor?: number | undefined;
  /** Bound of the importance weight of tokens of an older version (decoupled PPO), 0 for off. Default 2. */
  readonly importanceCap?: number | undefined;
}

/** Supervised fine-tuning on the demonstrations of the tasks. */
export type SftOptions = OptimizerOptions;

/** What `grpo` and `sft` give; `defineJob` takes it. */
export interface AlgorithmSettings {
  readonly form: "algorithm";
  readonly kind: "grpo" | "sft";
  /** `{ grpo: { groupSize: 8, … } }`, as in a job file. */
  readonly document: JobDocument;
}

/** @throws ConfigError with paths such as "algorithm.grpo.groupSize". */
export function grpo(options: GrpoOptions): AlgorithmSettings {
  const { clip, dualClip, lossAggregation, ...rest } = parseOrThrow(grpoSchema, options, "algorithm.grpo");
  const [clipLow, clipHigh] = typeof clip === "number" ? [clip, clip] : (clip ?? []);
  const { optimizer, batching, own } = split(rest);
  const settings = {
    ...own,
    clipLow,
    clipHigh,
    clipDual: dualClip,
    lossAggregation: enumName(lossAggregation, "LOSS_AGGREGATION"),
    optimizer,
    batching,
  };
  return { form: "algorithm", kind: "grpo", document: { grpo: present(settings) } };
}

/** @throws ConfigError with paths such as "algorithm.sft.epochs". */
export function sft(options: SftOptions = {}): AlgorithmSettings {
  const { optimizer, batching } = split(parseOrThrow(sftSchema, options, "algorithm.sft"));
  return { form: "algorithm", kind: "sft", document: { sft: present({ optimizer, batching }) ?? {} } };
}

const number = z.number().optional();
const whole = z.int().min(0).optional();

const optimizerShape = {
  learningRate: number,
  betas: z.tuple([z.number(), z.number()]).optional(),
  weightDecay: number,
  gradientClip: number,
  warmupSteps: whole,
  finalRateShare: number,
  epochs: whole,
  miniBatches: whole,
  microBatchTokens: whole,
};
const sftSchema = z.strictObject(optimizerShape);
const LOSS_AGGREGATIONS = [
  "token-mean",
  "token-sum",
  "seq-mean-token-sum",
  "seq-mean-token-sum-norm",
  "seq-mean-token-mean",
] as const satisfies readonly LossAggregation[];
const grpoSchema = z.strictObject({
  ...optimizerShape,
  groupSize: z.int().min(2),
  clip: z.union([z.number(), z.tuple([z.number(), z.number()])]).optional(),
  dualClip: number,
  normalizeByStd: z.boolean().optional(),
  entropyCoefficient: number,
  lossAggregation: z.enum(LOSS_AGGREGATIONS).optional(),
  lossScaleFactor: number,
  importanceCap: number,
});

type Split = { optimizer: JobDocument | undefined; batching: JobDocument | undefined; own: JobDocument };

/** The optimizer's and the batching's settings stand flat in options, and in messages of their own in a job. */
function split(options: z.output<typeof sftSchema>): Split {
  const { betas, learningRate, weightDecay, gradientClip, warmupSteps, finalRateShare, ...others } = options;
  const { epochs, miniBatches, microBatchTokens, ...own } = others;
  const [beta1, beta2] = betas ?? [];
  return {
    optimizer: present({ learningRate, beta1, beta2, weightDecay, gradientClip, warmupSteps, finalRateShare }),
    batching: present({ epochs, miniBatches, microBatchTokens }),
    own,
  };
}
