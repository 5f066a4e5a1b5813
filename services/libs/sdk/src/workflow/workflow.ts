// SPDX-License-Identifier: Apache-2.0
import type { Awaitable } from "../base-env.ts";
import type { Task } from "../types.ts";
import type { WorkflowContext } from "./context.ts";

/** An episode that the user's code leads itself. One instance plays one try: its fields are the try's own state. */
export abstract class Workflow {
  abstract run(task: Task, context: WorkflowContext): Awaitable<unknown>;
}
