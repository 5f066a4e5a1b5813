// SPDX-License-Identifier: Apache-2.0
// User code end to end: a module's own agent and environment train through the real services; bad ones are refused by line.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");

const AGENT = `
import { type Action, BaseAgent, type ChatMessage, createStep, createTrajectory, type Info, type ModelAnswer } from "@whetstone/sdk";

export class Echo extends BaseAgent {
  readonly trajectory = createTrajectory();
  #seen = "";
  reset(): void {}
  get chatCompletions(): ChatMessage[] { return [{ role: "user", content: this.#seen }]; }
  updateFromEnv(observation: unknown, _reward: number, _done: boolean, _info: Info): void { this.#seen = String(observation); }
  updateFromModel(response: string, answer: ModelAnswer): Action {
    this.trajectory.steps.push(createStep({ observation: this.#seen, modelResponse: response, action: response }));
    return { action: response };
  }
}`;

const ENVIRONMENT = `
import { BaseEnv, type ResetOptions, type ResetResult, type StepResult } from "@whetstone/sdk";

/** Pays for every letter L. */
export class Letters extends BaseEnv {
  readonly #turns: number;
  #n = 0;
  constructor({ turns = 2 }: { turns?: number }) {
    super();
    if (turns > 9) throw new Error("too many turns");
    this.#turns = turns;
  }
  reset({ seed }: ResetOptions): ResetResult { return { observation: "task " + (seed % 7), info: {} }; }
  step(action: unknown): StepResult {
    this.#n += 1;
    const reward = String(action).includes("L") ? 1 : 0.1 * (String(action).length % 3);
    return { observation: "again", reward, terminated: this.#n >= this.#turns, truncated: false, info: { success: reward === 1 } };
  }
}`;

const JOB = `
import { defineJob, grpo } from "@whetstone/sdk";
import { Echo } from "./src/agent.ts";
import { Letters } from "./src/environment.ts";

export default defineJob({
  agent: Echo,
  environment: { kind: Letters, args: { turns: 2 } },
  train: { seeds: { first: 1, count: 1000 } },
  algorithm: grpo({ groupSize: 4, learningRate: 1e-3 }),
  loop: { steps: 2, batchGroups: 4 },
  sampling: { temperature: 1, maxTokens: 4 },
  limits: { maxSteps: 2, maxPromptTokens: 64, maxResponseTokens: 64, episodeTimeout: "60s" },
});`;

describe("user code", () => {
  let runtime: LocalRuntime;
  let folder: string;
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const jobOf = (name: string, more: JsonObject = {}): JsonObject => ({
    ...smallJob(name, runtime.model, { steps: 2, groups: 4 }),
    agent: { kind: "Echo" },
    environment: { kind: "Letters" },
    module: "./src/both.ts",
    ...more,
  });

  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/module-test-"));
    mkdirSync(join(folder, "src"));
    write("src/agent.ts", AGENT);
    write("src/environment.ts", ENVIRONMENT);
    write("src/both.ts", 'export * from "./agent.ts";\nexport * from "./environment.ts";');
    runtime = await startLocalRuntime();
  }, 240_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it("of a job in TypeScript trains two steps, and every episode is accounted for", () => {
    const { status, output } = runtime.whet("train", write("job.ts", JOB), "--set", "name=in-code");
    expect(status, output).toBe(0);
    const job = runtime.whet("jobs", "get", "in-code").json as Job;
    expect(job.status).toMatchObject({ phase: "JOB_PHASE_SUCCEEDED", step: 2 });
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 32 };
    expect(runtime.whet("jobs", "audit", "in-code").json).toMatchObject(sound);
  }, 240_000);

  it("of a YAML job trains, and is evaluated", () => {
    const file = write("job.yaml", JSON.stringify(jobOf("in-yaml")));
    const { status, output } = runtime.whet("train", file);
    expect(status, output).toBe(0);
    const judged = runtime.whet("eval", "--job", file, "--tasks", "1:4", "--attempts", "2");
    expect(judged.status, judged.output).toBe(0);
    expect(judged.json).toMatchObject({ total: { tasks: 4, episodes: 8, voided: 0 } });
  }, 240_000);

  it("that is wrong ends the command with exit code 2 and its line", () => {
    const cases: [file: string, said: RegExp][] = [
      [write("syntax.ts", "const a: = 3;"), /syntax\.ts:1:10/],
      [write("missing.ts", '\nimport "./nowhere.ts";'), /missing\.ts:2:8.*nowhere/],
      [write("throws.ts", "const a: string[] = [];\nexport default (a[0] as string).length;"), /throws\.ts:2:33/],
      [write("nothing.ts", "export const a = 1;"), /exports no job/],
      [
        write("lost.yaml", JSON.stringify(jobOf("lost", { module: "./gone.ts" }))),
        /module: \.\/gone\.ts.*does not exist/,
      ],
    ];
    for (const [file, said] of cases) {
      const { status, output } = runtime.whet("train", file);
      expect([status, output]).toEqual([2, expect.stringMatching(said)]);
    }
  }, 180_000);

  it("is judged by the controller before anything starts: kinds, arguments, digest", async () => {
    const refused = (name: string, more: JsonObject): unknown => {
      const { status, json } = runtime.whet("train", write(`${name}.yaml`, JSON.stringify(jobOf(name, more))));
      expect(status).toBe(2);
      return (json as { error: { violations: unknown } }).error.violations;
    };
    expect(refused("a", { agent: { kind: "Nobody" } })).toMatchObject([
      { path: "agent.kind", reason: expect.stringContaining("Echo, frozenlake") },
    ]);
    const { environment: _none, ...alone } = jobOf("b");
    const file = write("b.yaml", JSON.stringify(alone));
    expect(runtime.whet("train", file).output).toMatch(/environment\.kind.*agent \\?"Echo\\?" acts in/);
    expect(refused("c", { environment: { kind: "Letters", args: { turns: 10 } } })).toMatchObject([
      { path: "environment.args", reason: expect.stringMatching(/too many turns \(.*environment\.ts:10:/) },
    ]);
    write("src/broken.ts", 'export * from "./both.ts";\nthrow new Error("not today");');
    expect(refused("d", { module: "./src/broken.ts" })).toMatchObject([
      { path: "module", reason: expect.stringMatching(/not today \(broken\.ts:2:/) },
    ]);
    await using jobs = createClient(JobService, runtime.address("controller"));
    const spec = { ...jobOf("e"), module: { digest: "0".repeat(64) } };
    const submitted = jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) });
    await expect(submitted).rejects.toMatchObject({ violations: [{ path: "module.digest" }] });
    const wrong = jobs.submitJob({ spec: fromJson(JobSpecSchema, spec), moduleCode: new Uint8Array([1]) });
    await expect(wrong).rejects.toMatchObject({ violations: [{ path: "module.digest" }] });
  }, 180_000);
});

interface Job {
  readonly status: unknown;
}
