// SPDX-License-Identifier: Apache-2.0
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import type { JobSpec, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import type { Notice, TrainProgress } from "@whetstone/proto/trainer/v1/trainer";
import type { CompiledJob } from "../jobs/compiled-job.ts";
import type { Fleet } from "./ports.ts";

/** What every part of a running job's loop knows. */
export interface JobContext {
  readonly spec: JobSpec;
  readonly job: CompiledJob;
  readonly uid: string;
  readonly fleet: Fleet;
  /**
   * Aborts when even a running step is left: the job is cancelled, its timeout has passed, or the process has to go. The
   * trainer may finish that step alone; nobody trains it a second time (I1).
   */
  readonly leave: AbortSignal;
  onTrainProgress(progress: TrainProgress): void;
  /** What people should read in the job's status now; replaces what the same source said before. Cheap. */
  notices(source: "trainer" | "step" | "batch" | "result", notices: readonly Notice[]): void;
  /** The newest version: trained and published, perhaps not yet served. */
  onPolicy(policy: PolicyRecord): Promise<void>;
  onStep(record: StepRecord): Promise<void>;
  onValidation(results: readonly ValidationResult[]): Promise<void>;
  /** Called when episodes were dispatched or sealed; cheap, may be called often. */
  onCounts(): void;
}
