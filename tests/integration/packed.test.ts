// SPDX-License-Identifier: Apache-2.0
// Outside the repository: what `npm pack` made is installed into an empty folder, makes a project, tests and trains it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TrainResult } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openOutside, type Outside, packInto } from "../support/outside.ts";

const root = join(import.meta.dirname, "../..");
const TYPES = ["typescript", "@types/node"] as const;

describe("the packages, outside the repository", () => {
  let outside: Outside;
  let project: string;

  beforeAll(() => {
    outside = openOutside();
    project = join(outside.folder, "demo");
    const tarballs = packInto(join(outside.folder, "packages"));
    writeFileSync(join(outside.folder, "package.json"), "{}");
    const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const types = TYPES.map((name) => `${name}@${devDependencies[name]}`);
    const installed = outside.run(outside.folder, "npm", "install", "--no-audit", "--no-fund", ...tarballs, ...types);
    expect(installed.status, installed.output).toBe(0);
    const made = outside.run(outside.folder, "npx", "whet", "init", "demo");
    expect(made.status, made.output).toBe(0);
  }, 300_000);
  afterAll(() => outside[Symbol.dispose]());

  it("SDK and command line share one copy of what both know", () => {
    const code = `
      import { createRequire } from "node:module";
      import { pathToFileURL } from "node:url";
      import { grpo } from "@whetstone/sdk";
      const core = await import("@whetstone/sdk/internal/core");
      try { grpo({ groupSize: 0 }); } catch (error) { console.log(error instanceof core.ConfigError); }`;
    const { stdout, output } = outside.run(project, "node", "--input-type=module", "--eval", code);
    expect(stdout.trim(), output).toBe("true");
  });

  it("the SDK alone brings no search index and no JSON-schema engine", () => {
    const dependenciesOf = (name: string): string[] => {
      const path = join(outside.folder, "node_modules/@whetstone", name, "package.json");
      return Object.keys(JSON.parse(readFileSync(path, "utf8")).dependencies);
    };
    expect(dependenciesOf("sdk")).toEqual(["undici", "zod"]);
    expect(dependenciesOf("tools")).toEqual(expect.arrayContaining(["@cfworker/json-schema", "minisearch"]));
    expect(dependenciesOf("cli")).not.toContain("@whetstone/tools");
  });

  it("datasets, graders and tools use the same SDK", () => {
    const code = `
      import { Dataset } from "@whetstone/datasets";
      import { mathReward } from "@whetstone/graders";
      import { BaseEnv, EpisodeError, grade } from "@whetstone/sdk";
      import { calculator, ToolEnvironment } from "@whetstone/tools";
      const rewardFunction = mathReward({ extraction: "whole" });
      const [task] = await Array.fromAsync(Dataset.fromRows([{ question: "1+1", answer: 2 }]));
      const env = new ToolEnvironment({ task: task.payload, tools: [calculator], rewardFunction });
      await env.reset({ seed: 0 });
      const { reward } = await env.step(await calculator.run({ expression: "2/1" }, {}));
      const broken = await grade(rewardFunction, {}, "2").catch((error) => error);
      console.log(env instanceof BaseEnv, reward, broken instanceof EpisodeError, broken.failureClass);`;
    const { stdout, output } = outside.run(project, "node", "--input-type=module", "--eval", code);
    expect(stdout.trim(), output).toBe("true 1 true TASK");
  });

  it("the charts come with the command line", () => {
    const charts = join(outside.folder, "node_modules/@whetstone/cli/charts");
    for (const name of ["whetstone", "whetstone-crds"]) expect(existsSync(join(charts, name, "Chart.yaml"))).toBe(true);
    const refused = outside.run(project, "npx", "whet", "install", "--kube", "--context", "nowhere");
    expect([refused.status, refused.output]).toEqual([
      2,
      expect.stringMatching(/no context "nowhere"|there is no kubeconfig/),
    ]);
  });

  it("the new project's own `npm install` finds our packages, which are in no registry", () => {
    const { status, output } = outside.run(project, "npm", "install", "--dry-run", "--no-audit", "--no-fund");
    expect(status, output).toBe(0);
  });

  it("the new project's own test passes, without a runtime", () => {
    const { status, output } = outside.run(project, "npm", "test");
    expect([status, /pass 2\b/.test(output)], output).toEqual([0, true]);
  });

  it("the new project's types hold against the packed declarations", () => {
    const { status, output } = outside.run(project, "npm", "run", "check");
    expect(status, output).toBe(0);
  });

  it("the new project trains for three steps, and nothing is left running", () => {
    const args = ["train", "src/job.ts", "--set", "loop.steps=3", "--json"];
    const { status, stdout, output } = outside.run(project, "npx", "whet", ...args);
    expect(status, output).toBe(0);
    const events = stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line));
    const steps = events.filter(({ event }) => event === "step").map(({ step }) => step);
    expect(steps).toHaveLength(3);
    for (const { episodes, voided, metrics } of steps) {
      expect([episodes, voided ?? 0]).toEqual([64, 0]);
      expect(metrics["reward/mean"]).toBeGreaterThan(0);
    }
    const last = events.findLast(({ event }) => event === "job").job;
    expect(last.status).toMatchObject({ phase: "JOB_PHASE_SUCCEEDED", step: 3 });
    expect(existsSync(join(last.status.modelPath, "config.json"))).toBe(true);
    expect(outside.leftRunning()).toEqual([]);
  }, 240_000);

  it("a program trains by AgentTrainer, and gets steps, validations and weights", () => {
    writeFileSync(join(project, "src/train.ts"), TRAIN);
    const { status, stdout, output } = outside.run(project, "node", "src/train.ts");
    expect(status, output).toBe(0);
    const result = JSON.parse(stdout) as TrainResult & { seen: number[] };
    expect(result.seen).toEqual([0, 1, 2]);
    expect(result.steps.map(({ step }) => step)).toEqual([0, 1, 2]);
    expect(result.validations.map(({ step, tasks }) => [step, tasks])).toEqual([
      [0, 4],
      [3, 4],
    ]);
    expect(existsSync(join(result.modelPath, "config.json"))).toBe(true);
    expect(outside.leftRunning()).toEqual([]);
  }, 240_000);
});

const TRAIN = `
import { AgentTrainer, grpo } from "@whetstone/sdk";
import { TypingAgent } from "./agent.ts";
import { TypingEnv } from "./environment.ts";

export const trainer = new AgentTrainer({
  module: import.meta.url,
  agentClass: TypingAgent,
  envClass: TypingEnv,
  envArgs: { turns: 1 },
  trainDataset: { seeds: { first: 1, count: 100 } },
  valDataset: { seeds: { first: 1000, count: 4 } },
  algorithm: grpo({ groupSize: 4 }),
  loop: { steps: 3, batchGroups: 4 },
  sampling: { maxTokens: 8 },
  limits: { maxSteps: 1, maxPromptTokens: 64, maxResponseTokens: 64 },
});
if (import.meta.main) {
  const seen: number[] = [];
  const result = await trainer.train({ onStep: ({ step }) => void seen.push(step) });
  console.log(JSON.stringify({ ...result, seen }));
}
`;
