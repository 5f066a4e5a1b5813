// SPDX-License-Identifier: Apache-2.0
// A job with browsers whose policy reads its pages: all of its episodes are to be paid, whatever is killed.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { smallJob } from "./local-runtime.ts";

const TASKS = ["click-test-2", "click-test-transfer"];

/** Asks the model, and does what the page says all the same. */
const POLICY = `
import { BaseAgent, createStep, createTrajectory, defineAgent } from "@whetstone/sdk";
class Reader extends BaseAgent {
  trajectory = createTrajectory();
  chatCompletions = [];
  reset() {}
  updateFromEnv(observation) {
    const name = /button (\\w+)\\./.exec(observation?.goal ?? "")?.[1];
    const bid = new RegExp("\\\\[(\\\\w+)\\\\] button '" + name + "'").exec(observation?.axtree ?? "")?.[1];
    // One button may lie on the other: then it is reached by the keyboard.
    const isCovered = /intercepts pointer events/.test(observation?.lastActionError ?? "");
    this.next = isCovered ? "press('" + bid + "', 'Enter')" : "click('" + bid + "')";
    this.chatCompletions.push({ role: "user", content: "go on" });
  }
  updateFromModel(response) {
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: this.next }));
    return { action: this.next };
  }
}
export const reader = defineAgent({ kind: "reader", create: () => new Reader() });
`;

export interface BrowserJobOptions {
  readonly name: string;
  readonly model: string;
  readonly steps: number;
  /** Groups of four a step. */
  readonly groups: number;
}

/** Its module and its tasks are written into the folder. */
export function browserJob(folder: string, { name, model, steps, groups }: BrowserJobOptions) {
  const jsonl = join(folder, "tasks.jsonl");
  const tasks = TASKS.map((task) => `${JSON.stringify({ id: task, payload: { miniwob: task } })}\n`);
  writeFileSync(jsonl, tasks.join(""));
  writeFileSync(join(folder, "policy.ts"), POLICY);
  return {
    ...smallJob(name, model, { steps, lag: 1, groups }),
    agent: { kind: "reader" },
    environment: { kind: "browser", args: { maxSteps: 3 } } as JsonObject,
    module: { path: "./policy.ts" } as JsonObject,
    train: { jsonl, repeat: 1000 },
    limits: { maxSteps: 3, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "300s", retryLimit: 4 },
  };
}
