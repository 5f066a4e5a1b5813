// SPDX-License-Identifier: Apache-2.0
import type { DesiredState } from "@whetstone/proto/jobs/v1/jobs";
import type { WorkloadCondition } from "../kueue/workload.ts";

/** What the record of a job has to say; only what differs is written. */
export interface RecordUpdate {
  readonly desired: DesiredState;
  /** The object's, which it was taken from. */
  readonly generation: number;
  /** `spec.job` has changed and the job does not run: take its text over. */
  readonly takeSpec: boolean;
}

/** One effect, each of which can be repeated. They are carried out in order, and the first failure ends the pass. */
export type Action =
  | { readonly kind: "add-finalizer" }
  /** Make the record: the job exists from here on. */
  | { readonly kind: "admit"; readonly update: RecordUpdate }
  | { readonly kind: "update"; readonly update: RecordUpdate }
  | { readonly kind: "make-workload" }
  /** Tell Kueue that nothing of an evicted job runs any more: its quota is free. */
  | { readonly kind: "release-workload"; readonly reason: string; readonly message: string }
  /** A suspended job leaves its queue, and comes back when it goes on. */
  | { readonly kind: "set-workload-active"; readonly active: boolean }
  | { readonly kind: "set-workload-condition"; readonly condition: WorkloadCondition }
  | { readonly kind: "make-ray-cluster" }
  | { readonly kind: "delete-ray-cluster" }
  | { readonly kind: "finish-workload"; readonly succeeded: boolean; readonly message: string }
  /** Delete streams, books, record, and the run folder if so wanted. */
  | { readonly kind: "purge"; readonly runFolder: boolean }
  | { readonly kind: "remove-finalizer" }
  | { readonly kind: "delete" };
