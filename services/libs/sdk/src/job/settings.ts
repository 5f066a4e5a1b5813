// SPDX-License-Identifier: Apache-2.0
import type { Duration } from "./duration.ts";

// The settings of a job in the words of TypeScript. Names are those of a YAML job file; ranges and defaults are those of
// proto/whetstone/jobs/v1/jobs.proto, and the controller judges what they mean together.

/** How tokens are drawn. */
export interface SamplingSettings {
  /** 0.01 to 2, or 0 (greedy; not to train on). Default 1. */
  readonly temperature?: number | undefined;
  /** (0, 1]. Default 1 (off). For validation and evaluation only. */
  readonly topP?: number | undefined;
  /** At least 1, or 0 for off. Default 0. For validation and evaluation only. */
  readonly topK?: number | undefined;
  /** Most tokens of one model call. Default: what the limits leave. */
  readonly maxTokens?: number | undefined;
}

/** Bounds of single phases inside the episode's one deadline. Default: only the deadline (close: 5 s). */
export interface PhaseTimeoutSettings {
  readonly reset?: Duration | undefined;
  readonly model?: Duration | undefined;
  readonly step?: Duration | undefined;
  readonly reward?: Duration | undefined;
  readonly close?: Duration | undefined;
}

/** The budgets of one episode. Lengths count tokens. */
export interface LimitSettings {
  /** Environment steps. Default 5. */
  readonly maxSteps?: number | undefined;
  /** Of the first prompt, or of every prompt with `enforcePromptLimitEachStep`. Default 1024. */
  readonly maxPromptTokens?: number | undefined;
  /** After the first prompt, sampled and observed together (each call's own with `enforcePromptLimitEachStep`). Default 8192. */
  readonly maxResponseTokens?: number | undefined;
  /** Each step has its own budgets, for agents that do not keep their history. Default false. */
  readonly enforcePromptLimitEachStep?: boolean | undefined;
  /** The one deadline of an episode, from reset to reward. Default 300 s. */
  readonly episodeTimeout?: Duration | undefined;
  /** How often an episode that failed through no fault of the model is played again. Default 2. */
  readonly retryLimit?: number | undefined;
  /** Discount of the Monte-Carlo returns, [0, 1]. Default 1. */
  readonly gamma?: number | undefined;
  /** Episodes cut by MAX_TURNS, MAX_RESPONSE_LENGTH or DEADLINE are masked in the loss. Default false. */
  readonly overlongFilter?: boolean | undefined;
  /** Thinking of earlier answers stays in later prompts. Default true. */
  readonly accumulateThinking?: boolean | undefined;
  /** Asks the chat template for answers without thinking. Default false. */
  readonly disableThinking?: boolean | undefined;
  readonly phaseTimeouts?: PhaseTimeoutSettings | undefined;
}

/** What happens to a group some of whose members were voided. */
export type GroupPolicy = "complete" | "drop" | { readonly partial: { readonly minSize: number } };

/** The sample, train, sync loop. */
export interface LoopSettings {
  /** Batches to train on; 0 only evaluates. */
  readonly steps: number;
  /** Groups a batch. Required unless `steps` is 0. */
  readonly batchGroups?: number | undefined;
  /** How many versions older than the one being trained a token may be, 0 to 8. Default 0: synchronous. */
  readonly maxPolicyLag?: number | undefined;
  /** A checkpoint every n steps, and after the last. Default 1. */
  readonly checkpointEvery?: number | undefined;
  /** Default 2. */
  readonly checkpointsKept?: number | undefined;
  /** Default: partial with 2 members (1 for SFT). */
  readonly groupPolicy?: GroupPolicy | undefined;
  /** What becomes of an episode that ran into its deadline. Default "void". */
  readonly deadlinePolicy?: "void" | "score" | "mask" | undefined;
  /**
   * What the trainer does when a sampled token's log-probability, computed again under the version that sampled it, is more
   * than `mismatchBound` off. Default "stop": the job fails with the reason LogprobMismatch before it is trained on.
   */
  readonly onMismatch?: "warn" | "stop" | undefined;
  /** Nats. Default 1. */
  readonly mismatchBound?: number | undefined;
}

/** A role that is not as the job's default. */
export interface RoleSettings {
  /** As trajectories are named: "solver". */
  readonly name: string;
  /** Default "grpo". */
  readonly advantage?: "grpo" | "reinforce" | "rloo" | "reinforce++-baseline" | undefined;
  /** Its tokens are context, never trained. Always so with `model`. */
  readonly frozen?: boolean | undefined;
  /** Who answers in this role: any OpenAI-compatible server. Default: the job's policy. */
  readonly model?: ExternalModelSettings | undefined;
}

export interface ExternalModelSettings {
  /** Up to and without "/v1". */
  readonly baseUrl: string;
  readonly model: string;
  /** Name of the orchestrator's environment variable that holds the key. Default: no key. */
  readonly apiKeyEnv?: string | undefined;
}

/** One way of drawing validation answers. */
export interface VariantSettings {
  /** Lower-case word, unique in the job: "greedy". */
  readonly name: string;
  readonly sampling?: SamplingSettings | undefined;
  /** Episodes a task, for pass@k. Default 1. */
  readonly attempts?: number | undefined;
}

/** When and how a validation is played. */
export interface ValidationSettings {
  /** Also after every n-th step. Default 0: only as the two flags below say. */
  readonly everySteps?: number | undefined;
  /** Before the first step. Default true. */
  readonly atStart?: boolean | undefined;
  /** After the last step. Default true. */
  readonly atEnd?: boolean | undefined;
  /** Default: one, "sampled", with the job's own sampling. */
  readonly variants?: readonly VariantSettings[] | undefined;
}
