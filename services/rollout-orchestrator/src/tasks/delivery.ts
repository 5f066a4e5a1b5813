// SPDX-License-Identifier: Apache-2.0
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import type { Episode } from "@whetstone/proto/types/v1/types";
import type { Runners } from "../environments/runners.ts";

/** One delivery of one task. */
export interface Delivery {
  /** Where its environment may be. Absent: wherever there is room. */
  readonly runners?: Runners | undefined;
  readonly task: RolloutTask;
  /** Deliveries so far, from 1. */
  readonly attempt: number;
  /** Plays of this delivery before this one, whose process ended. Default 0. */
  readonly replay?: number;
  /** Milliseconds that the task has waited here for a slot. */
  readonly waitingMs: number;
  /** Milliseconds since it was first handed back because no env-runner had room. Default: none has had to. */
  readonly withoutRoomMs?: number;
  /** Its model answers are played back instead of asking a model. */
  readonly recorded?: Episode | undefined;
}
