// SPDX-License-Identifier: Apache-2.0
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import type { JobSpec, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import type { Notice, TrainProgress } from "@whetstone/proto/trainer/v1/trainer";
import type { CompiledJob } from "../domain/compiled-job.ts";
import type { Fleet } from "./ports.ts";

/** What every part of a running job's loop knows. */
export interface JobContext {
  readonly spec: JobSpec;
  readonly job: CompiledJob;
  readonly uid: string;
  readonly fleet: Fleet;
  /** Aborts when the process has to go, or the job's epoch was taken over: even a running step is left then. */
  readonly shutdown: AbortSignal;
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
