// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import { type AlgorithmSettings, grpo } from "@whetstone/sdk";
import type { QuickstartOptions } from "./options.ts";

/** GRPO steps of the quickstart. */
export const GRPO_STEPS = 60;
export const DEMONSTRATIONS = 4096;
const SFT_STEPS = 8;
/** Seeds of maps: training, demonstrations and held-out maps never share one. */
const TRAIN_SEEDS = 100_000_000;
const HELD_OUT_SEEDS = 4_000_000_000;
const SEEDS_PER_RUN = 1_000_000;

/** First seed of a run's training maps and of its demonstrations; runs of different SEED share none. */
export function trainSeeds(seed: number): { first: number; demonstrations: number } {
  const first = TRAIN_SEEDS + (seed % 500) * 2 * SEEDS_PER_RUN;
  return { first, demonstrations: first + SEEDS_PER_RUN };
}

/** How the maps look to a tiny model: one character a cell, one letter an answer. */
const ENVIRONMENT: JsonObject = {
  kind: "frozenlake",
  args: { size: 4, frozenProbability: 0.8, observation: "compact", maxSteps: 6, stepDiscount: 0.9 },
};
const AGENT: JsonObject = { kind: "frozenlake", args: { variant: "compact" } };
/** A letter and the end of the turn; every turn stands for itself. */
const SAMPLING: JsonObject = { temperature: 1, maxTokens: 2 };
const LIMITS: JsonObject = {
  maxSteps: 6,
  maxPromptTokens: 64,
  maxResponseTokens: 8,
  enforcePromptLimitEachStep: true,
  episodeTimeout: "120s",
};

/** Held-out maps, greedy and sampled, before the first step and after the last. */
function validation(options: QuickstartOptions, atStart: boolean): JsonObject {
  return {
    dataset: { seeds: { first: String(HELD_OUT_SEEDS), count: String(options.heldOut) } },
    atStart,
    atEnd: true,
    variants: [
      { name: "greedy", sampling: { ...SAMPLING, temperature: 0 } },
      { name: "sampled", sampling: SAMPLING },
    ],
  };
}

/** SFT on random legal moves: teaches the format of an answer, not the way. */
export function sftJob(options: QuickstartOptions, modelPath: string, demonstrations: string): JsonObject {
  return {
    name: `quickstart-sft-${options.seed}`,
    model: { path: modelPath },
    agent: AGENT,
    environment: ENVIRONMENT,
    train: { jsonl: demonstrations },
    validation: validation(options, true),
    algorithm: {
      sft: {
        optimizer: { learningRate: 0.001, beta2: 0.95, warmupSteps: 1, finalRateShare: 0.1 },
        batching: { miniBatches: 16, epochs: 6 },
      },
    },
    loop: { steps: SFT_STEPS, batchGroups: DEMONSTRATIONS / SFT_STEPS },
    sampling: SAMPLING,
    limits: LIMITS,
    seed: String(options.seed),
  };
}

/** What every policy gradient here has; each algorithm adds its own. */
export const POLICY_GRADIENT = {
  groupSize: 8,
  // Late in training most groups say nothing: counted, they would make steps small.
  lossDenominator: "signal",
  entropyCoefficient: 0.002,
  learningRate: 0.0005,
  beta2: 0.95,
  // With 1 step, one run in a few lost the form of an answer in its first steps.
  warmupSteps: 4,
  finalRateShare: 0.2,
  miniBatches: 16,
  epochs: 2,
} as const;

/** GRPO on random maps: teaches to reach the goal. */
export function grpoJob(options: QuickstartOptions, modelPath: string): JsonObject {
  return rlJob(options, modelPath, `quickstart-grpo-${options.seed}`, grpo({ ...POLICY_GRADIENT, clipHigh: 0.28 }));
}

/** Training on random maps by one algorithm. */
export function rlJob(
  options: QuickstartOptions,
  modelPath: string,
  name: string,
  algorithm: AlgorithmSettings,
): JsonObject {
  return {
    name,
    model: { path: modelPath },
    agent: AGENT,
    environment: ENVIRONMENT,
    train: { seeds: { first: String(trainSeeds(options.seed).first), count: String(SEEDS_PER_RUN) } },
    validation: validation(options, false),
    algorithm: algorithm.document as JsonObject,
    loop: { steps: options.steps, batchGroups: 64, maxPolicyLag: options.lag, checkpointsKept: 2 },
    sampling: SAMPLING,
    limits: LIMITS,
    seed: String(options.seed),
  };
}
