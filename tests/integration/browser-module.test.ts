// SPDX-License-Identifier: Apache-2.0
// Pages that a job's own module defines and judges, through all services: examples/browser/orders.ts by scripts that read its pages.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { canHaveBrowsers } from "@whetstone/browser/test-support";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Who plays asks the model, and does what the goal wants all the same, or one more of it. */
const MODULE = `
import { BaseAgent, createStep, createTrajectory, defineAgent, defineBrowserTask } from "@whetstone/sdk";
import { orders } from "../../examples/browser/orders.ts";
export { orders };

/** The same, but for a checker that throws at one seed and hangs at another. */
export const ill = defineBrowserTask({ kind: "ill", create: async (args, options) => {
  const task = await orders.create(args).begin(options);
  const check = (page, until) => {
    if (args.seed === 2) throw new Error("the checker is ill");
    return args.seed === 4 ? new Promise(() => {}) : task.check(page, until);
  };
  return { ...task, check, callTimeoutMs: 3_000 };
} });

class Orderer extends BaseAgent {
  trajectory = createTrajectory();
  chatCompletions = [];
  constructor({ more = 0 }) { super(); this.more = more; }
  reset() {}
  updateFromEnv(observation) {
    const [, amount, item] = /Put (\\d+) of (\\w+)/.exec(observation?.goal ?? "") ?? [];
    const bid = (role, name) => new RegExp("\\\\[(\\\\w+)\\\\] " + role + " '" + name + " " + item + "'").exec(observation?.axtree ?? "")?.[1];
    const moves = [
      "fill('" + bid("textbox", "Amount of") + "', '" + (Number(amount) + this.more) + "')",
      "click('" + bid("button", "Order") + "')",
      'send_msg_to_user("done")',
    ];
    this.next = moves[this.trajectory.steps.length] ?? "noop()";
    this.chatCompletions.push({ role: "user", content: "go on" });
  }
  updateFromModel(response) {
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: this.next }));
    return { action: this.next };
  }
}
export const orderer = defineAgent({ kind: "orderer", create: (args) => new Orderer(args) });
`;

describe.runIf(canHaveBrowsers)("pages of a job's own module", () => {
  let runtime: LocalRuntime;
  let folder: string;
  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/browser-module-"));
    writeFileSync(join(folder, "module.ts"), MODULE);
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  function jobFile(name: string, more: JsonObject): string {
    const file = join(folder, `${name}.json`);
    const limits = { maxSteps: 3, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "120s", retryLimit: 1 };
    const settings = {
      ...smallJob(name, runtime.model, { steps: 2, groups: 4 }),
      module: { path: "./module.ts" },
      limits,
    };
    writeFileSync(
      file,
      JSON.stringify({ ...settings, agent: { kind: "orderer" }, environment: { kind: "orders" }, ...more }),
    );
    return file;
  }

  function evaluated(name: string, more: JsonObject): unknown {
    const { status, output, json } = runtime.whet(
      "eval",
      "--job",
      jobFile(name, more),
      "--tasks",
      "1:4",
      "--attempts",
      "2",
    );
    expect(status, output).toBe(0);
    return (json as { total: unknown }).total;
  }

  it("train: who does what they want is paid for all of it, and the books balance", async () => {
    const { status, output } = runtime.whet("train", jobFile("orders", {}));
    expect(status, output).toBe(0);
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 32, voided: 0 };
    expect(runtime.whet("jobs", "audit", "orders").json).toMatchObject(sound);
    await using jobs = createClient(JobService, runtime.address("controller"));
    const rates: unknown[] = [];
    for await (const { event } of jobs.streamMetrics({ name: "orders", follow: false }))
      if (event.case === "step") rates.push(event.value.metrics["rollout/success"]);
    expect(rates).toEqual([1, 1]);
  }, 300_000);

  it("pay nothing for what is not wanted", () => {
    const agent = { kind: "orderer", args: { more: 1 } };
    expect(evaluated("wrong", { agent })).toMatchObject({ episodes: 8, voided: 0, meanReward: { value: 0 } });
  }, 200_000);

  it("whose checker throws or hangs void those episodes, and pay the others", () => {
    const environment = { kind: "ill" };
    expect(evaluated("ill", { environment })).toMatchObject({ episodes: 4, voided: 4, meanReward: { value: 1 } });
  }, 200_000);
});
