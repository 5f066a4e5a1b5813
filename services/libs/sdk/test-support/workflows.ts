// SPDX-License-Identifier: Apache-2.0
import { type Clock, sleep, systemClock } from "@whetstone/core";
import {
  AgentWorkflowEngine,
  type AgentWorkflowEngineOptions,
  type ChatMessage,
  type Episode,
  type ModelAnswer,
  type Task,
  Workflow,
  type WorkflowContext,
} from "../src/index.ts";
import { ScriptedClient } from "./stand-ins.ts";

export const TASK: Task = { id: "t", payload: { question: "?" } };
export const REQUEST = { id: "t:0", task: TASK, seed: 7 };
export const ASK: ChatMessage[] = [{ role: "user", content: "?" }];
/** Retries without their pauses. */
export const impatient: Clock = { ...systemClock, sleep: (_ms, signal) => sleep(0, signal) };

export type Run = (flow: Workflow, context: WorkflowContext, task: Task) => unknown;

export function workflowOf(run: Run) {
  return class Written extends Workflow {
    async run(task: Task, context: WorkflowContext): Promise<undefined> {
      return (await run(this, context, task)) as undefined;
    }
  };
}

export function engineWith(run: Run, options: Partial<AgentWorkflowEngineOptions> = {}): AgentWorkflowEngine {
  const workflow = workflowOf(run);
  return new AgentWorkflowEngine({ rolloutClient: new ScriptedClient(), clock: impatient, workflow, ...options });
}

export function play(run: Run, options: Partial<AgentWorkflowEngineOptions> = {}): Promise<Episode> {
  return engineWith(run, options).runEpisode(REQUEST);
}

export function shape({ trajectories }: Episode) {
  return trajectories.map(({ uid, name, reward, steps }) => [uid, name, reward, steps.map(({ callId }) => callId)]);
}

export function answer(fields: Partial<ModelAnswer>): ModelAnswer {
  return { text: "r", finishReason: "stop", callId: "", usage: { promptTokens: 1, completionTokens: 1 }, ...fields };
}
