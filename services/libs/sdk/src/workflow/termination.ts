// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { TerminationReason } from "../failure.ts";

/** What a workflow may say about its own end; the other reasons are the runtime's to give. */
export type WorkflowEnd = Extract<
  TerminationReason,
  "ENV_DONE" | "MAX_TURNS" | "MAX_PROMPT_LENGTH" | "MAX_RESPONSE_LENGTH"
>;

/** Thrown by a workflow to end the episode there, with what it has so far. */
export class TerminationEvent extends WhetstoneError {
  readonly reason: WorkflowEnd;

  constructor(reason: WorkflowEnd) {
    super("INTERNAL", `the workflow ended with ${reason}`);
    this.reason = reason;
  }
}
