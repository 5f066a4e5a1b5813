// SPDX-License-Identifier: Apache-2.0
import { close, type Definition, type Registered, type RegisteredAgent, type RegisteredRollout } from "../define.ts";
import type { Info } from "../types.ts";
import type { Workflow } from "./workflow.ts";

export type WorkflowDefinition<Args = Info> = Definition<Args, Workflow>;
export type RegisteredWorkflow = Registered<"workflow", Workflow>;
/** What plays an episode. */
export type RegisteredActor = RegisteredAgent | RegisteredWorkflow | RegisteredRollout;

export function defineWorkflow<Args = Info>(definition: WorkflowDefinition<Args>): RegisteredWorkflow {
  return close("workflow", definition);
}
