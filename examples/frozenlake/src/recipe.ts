// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import { type AlgorithmSettings, grpo } from "@whetstone/sdk";
import type { QuickstartOptions } from "./options.ts";

/** GRPO steps of the quickstart. */
export const GRPO_STEPS = 20;
export const DEMONSTRATIONS = 4096;
const SFT_STEPS = 8;
/** Standard deviation of random weights that learn soon: 0.02, the default, is for models ten times as wide. */
export const SPREAD = 0.1;
/** Seeds of maps: training, demonstrations and held-out maps never share one. */
const TRAIN_SEEDS = 100_000_000;
const HELD_OUT_SEEDS = 4_000_000_000;
/** Of the long run: maps that no choice has seen. */
const FRESH_SEEDS = 4_500_000_000;
const SEEDS_PER_RUN = 1_000_000;

/** First seed of a run's training maps and of its demonstrations; runs of different SEED share none. */
export function trainSeeds(seed: number): { first: number; demonstrations: number } {
  const first = TRAIN_SEEDS + (seed % 500) * 2 * SEEDS_PER_RUN;
  return { first, demonstrations: first + SEEDS_PER_RUN };
}

/** How the maps look to a tiny model: one character a cell, one letter an answer. */
const LAKE: JsonObject = { size: 4, frozenProbability: 0.8, observation: "compact", maxSteps: 6, stepDiscount: 0.9 };
const ENVIRONMENT: JsonObject = { kind: "frozenlake", args: LAKE };
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
function validation(options: QuickstartOptions, atStart: boolean, first = HELD_OUT_SEEDS): JsonObject {
  return {
    dataset: { seeds: { first: String(first), count: String(options.heldOut) } },
    atStart,
    atEnd: true,
    variants: [
      { name: "greedy", sampling: { ...SAMPLING, temperature: 0 } },
      { name: "sampled", sampling: SAMPLING },
    ],
  };
}

/**
 * SFT on random legal moves: teaches the format of an answer, not the way.
 * @param epochs  more than 2 teach no more of it from weights of `SPREAD`
 */
export function sftJob(options: QuickstartOptions, modelPath: string, demonstrations: string, epochs = 2): JsonObject {
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
        batching: { miniBatches: 16, epochs },
      },
    },
    loop: { steps: SFT_STEPS, batchGroups: DEMONSTRATIONS / SFT_STEPS },
    sampling: SAMPLING,
    limits: LIMITS,
    seed: String(options.seed),
  };
}

/**
 * The four letters, and after one of them nothing but the end. Drawn from all tokens, the form of an answer is what a policy loses
 * first, and the entropy bonus is over what can be drawn: over more it makes answers likelier that mean nothing.
 */
const LETTERS: JsonObject = { topK: 4, minP: 0.01 };

const UPDATES = {
  groupSize: 8,
  learningRate: 0.001,
  beta2: 0.95,
  // With 1 step, one run in a few lost the form of an answer in its first steps.
  warmupSteps: 4,
  finalRateShare: 0.2,
  miniBatches: 8,
  epochs: 2,
  wholeGroups: true,
} as const;

/** What every policy gradient here has; each algorithm adds its own. */
export const POLICY_GRADIENT = {
  ...UPDATES,
  // Late in training most groups say nothing: counted, they would make steps small.
  lossDenominator: "signal",
  entropyCoefficient: 0.01,
} as const;

/** Bounds of the ratio that all losses which clip tokens share here. */
export const CLIPPED = { ...POLICY_GRADIENT, clipHigh: 0.28 } as const;

/**
 * GRPO on random maps: teaches to reach the goal. Groups whose episodes end alike are replaced (DAPO): half of them say nothing after
 * ten batches, and without others in their place twice as many batches end between 0.72 and 0.80.
 */
export function grpoJob(options: QuickstartOptions, modelPath: string): JsonObject {
  return rlJob(options, modelPath, `quickstart-grpo-${options.seed}`, grpo({ ...CLIPPED, dynamicSampling: {} }));
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
    sampling: { ...SAMPLING, ...LETTERS },
    limits: LIMITS,
    seed: String(options.seed),
  };
}

const SAFE_STEPS = 10;

/**
 * One step on each map, and a fall costs 1, as an answer that is none: teaches where the holes are. All other steps are worth
 * the same, and the entropy bonus keeps them open, so that the way can be looked for among them.
 */
const SAFE = {
  algorithm: grpo({ ...UPDATES, clipHigh: 0.28, entropyCoefficient: 0.15 }),
  batchGroups: 256,
  fallReward: -1,
  turns: 1,
};

/** Up to six steps: teaches to reach the goal. */
const WAY = {
  // With a rate of 0.001 success fell from 0.75 to 0.17 within four steps, and was back only 17 steps later.
  algorithm: grpo({ ...CLIPPED, learningRate: 0.0007, finalRateShare: 0.1, entropyCoefficient: 0.05 }),
  batchGroups: 128,
  fallReward: -0.5,
  turns: 6,
};

/** GRPO on single steps. Nothing is validated: whoever takes one step alone reaches few goals. */
export function safeJob(options: QuickstartOptions, modelPath: string): JsonObject {
  const { validation: _, ...job } = courseJob({ ...options, steps: SAFE_STEPS }, modelPath, "learn-safe", SAFE);
  return job;
}

/** GRPO on whole episodes, from where `safeJob` ends. */
export function wayJob(options: QuickstartOptions, modelPath: string): JsonObject {
  return courseJob(options, modelPath, "learn-way", WAY);
}

function courseJob(
  options: QuickstartOptions,
  modelPath: string,
  name: string,
  course: typeof SAFE | typeof WAY,
): JsonObject {
  const job = rlJob(options, modelPath, `${name}-${options.seed}`, course.algorithm);
  return {
    ...job,
    // Much entropy makes a letter likelier after a letter, too. Where that cost nothing, two runs of five found it safer
    // than a step.
    environment: {
      kind: "frozenlake",
      args: { ...LAKE, holeReward: course.fallReward, invalidReward: course.fallReward },
    },
    validation: validation(options, false, FRESH_SEEDS),
    loop: { ...(job["loop"] as JsonObject), batchGroups: course.batchGroups },
    limits: { ...LIMITS, maxSteps: course.turns },
  };
}
