// SPDX-License-Identifier: Apache-2.0
import type { RolloutTask } from "@whetstone/proto/events/v1/events";

/** One delivery of one task. */
export interface Delivery {
  readonly task: RolloutTask;
  /** Deliveries so far, from 1. */
  readonly attempt: number;
  /** Plays of this delivery before this one, whose process ended. Default 0. */
  readonly replay?: number;
  /** Milliseconds that the task has waited here for a slot. */
  readonly waitingMs: number;
}
