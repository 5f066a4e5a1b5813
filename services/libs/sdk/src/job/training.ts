// SPDX-License-Identifier: Apache-2.0
import type { JobDefinition } from "./define-job.ts";

/** One finished step. */
export interface StepSummary {
  /** From 0. */
  readonly step: number;
  /** The version that it made. */
  readonly policyVersion: number;
  /** By the names of docs/metrics.md: "reward/mean", "loss". */
  readonly metrics: Readonly<Record<string, number>>;
  readonly episodes: number;
  readonly voided: number;
  readonly tokensSampled: number;
  readonly tokensTrained: number;
  readonly durationMs: number;
}

/** One variant of one validation. */
export interface ValidationSummary {
  /** Steps done before it. */
  readonly step: number;
  readonly variant: string;
  readonly tasks: number;
  readonly episodes: number;
  /** Could not be scored. */
  readonly voided: number;
  /** Share of scored episodes that are correct, [0, 1]. */
  readonly success: number;
  readonly meanReward: number;
  /** Unbiased pass@k by k. */
  readonly passAtK: Readonly<Record<number, number>>;
  /** Of demonstrations that the trainer evaluated, which nobody played: "loss", "rewards/accuracies". Else empty. */
  readonly metrics: Readonly<Record<string, number>>;
}

export interface TrainOptions {
  readonly onStep?: ((step: StepSummary) => void) | undefined;
  readonly onValidation?: ((validation: ValidationSummary) => void) | undefined;
  /** What happens, line by line: the runtime starting, the job's phases. Default: silent. */
  readonly onLine?: ((line: string) => void) | undefined;
  /** Aborting suspends the job after its running step; trained again, it goes on there. */
  readonly signal?: AbortSignal | undefined;
  /** Data directory of the local runtime. Default: WHETSTONE_DATA, else ".whetstone" in the current folder. */
  readonly data?: string | undefined;
}

export interface TrainResult {
  /** The job's name. */
  readonly job: string;
  /** Folder of the trained weights in Hugging Face layout, where the trainer wrote it. */
  readonly modelPath: string;
  /** In order. */
  readonly steps: readonly StepSummary[];
  readonly validations: readonly ValidationSummary[];
}

/** What `@whetstone/cli/trainer` is asked to do. */
export interface TrainRequest extends TrainOptions {
  /** File or file URL of the module that defines the job's agents and environments. */
  readonly module: string;
  readonly definition: JobDefinition;
}

/** The programmatic entry of the command line: `import { trainJob } from "@whetstone/cli/trainer"`. */
export interface TrainerEntry {
  trainJob(request: TrainRequest): Promise<TrainResult>;
}
