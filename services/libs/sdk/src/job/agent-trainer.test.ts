// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { FrozenLakeEnv } from "../frozenlake/environment.ts";
import { readModule } from "../read-module.ts";
import { grpo } from "./recipes.ts";
import { AgentTrainer, type AgentTrainerSettings } from "./agent-trainer.ts";
import { defineJob } from "./define-job.ts";

const settings: AgentTrainerSettings = {
  module: import.meta.url,
  agentClass: "frozenlake",
  agentArgs: { variant: "compact" },
  envClass: FrozenLakeEnv,
  envArgs: { size: 4 },
  trainDataset: { seeds: { first: 1, count: 10 } },
  valDataset: { dataset: { seeds: { first: 100, count: 5 } }, everySteps: 2 },
  algorithm: grpo({ groupSize: 4 }),
  loop: { steps: 3, batchGroups: 2 },
};
const job = defineJob({ environment: FrozenLakeEnv, rollout: { kind: "command" }, loop: { steps: 0 } });

describe("AgentTrainer", () => {
  it("makes the job that its parameters, named as in rLLM, describe", async () => {
    expect(await new AgentTrainer(settings).definition.document()).toEqual({
      agent: { kind: "frozenlake", args: { variant: "compact" } },
      environment: { kind: "FrozenLakeEnv", args: { size: 4 } },
      train: { seeds: { first: "1", count: "10" } },
      validation: { dataset: { seeds: { first: "100", count: "5" } }, everySteps: 2 },
      algorithm: { policyGradient: { groupSize: 4 } },
      loop: { steps: 3, batchGroups: 2 },
    });
  });

  it("takes a function as agentRunFunc, and a whole job", async () => {
    const { agentClass: _c, agentArgs: _a, envClass: _e, envArgs: _v, ...rest } = settings;
    const run = new AgentTrainer({
      ...rest,
      agentRunFunc: async function solve() {
        return 1;
      },
    });
    expect(await run.definition.document()).toMatchObject({ agent: { kind: "solve" } });
    expect(run.actors.map(({ form, kind }) => [form, kind])).toEqual([["rollout", "solve"]]);
    expect(new AgentTrainer({ module: import.meta.url, job }).definition).toBe(job);
  });

  it("is found in the exports of its module, with what it defines", () => {
    const found = readModule({ trainer: new AgentTrainer(settings) });
    expect(found.environments.map(({ kind }) => kind)).toEqual(["FrozenLakeEnv"]);
  });

  it("refuses what would have no effect, or is unknown", () => {
    const make = (more: object) => () => new AgentTrainer({ ...settings, ...more });
    expect(make({ workflowArgs: {} })).toThrow("workflowArgs: is given without its class");
    expect(make({ backend: "verl" })).toThrow("backend: unknown setting");
    expect(make({ module: "" })).toThrow("module: must be import.meta.url");
    expect(() => new AgentTrainer({ module: "x", job, loop: { steps: 1 } })).toThrow("loop: is the job's own");
  });
});

describe("train()", () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-trainer-"));
  const cli = join(folder, "with/node_modules/@whetstone/cli");

  beforeAll(() => {
    mkdirSync(cli, { recursive: true });
    const manifest = { name: "@whetstone/cli", type: "module", exports: { "./trainer": "./trainer.js" } };
    writeFileSync(join(cli, "package.json"), JSON.stringify(manifest));
    writeFileSync(join(cli, "trainer.js"), "export const trainJob = async (request) => ({ job: 'j', request });");
  });
  afterEach(() => delete process.env["WHETSTONE_MODULE_HOST"]);
  afterAll(() => rmSync(folder, { recursive: true }));

  it("hands the module and its job to the command line that is installed beside the module", async () => {
    const module = pathToFileURL(join(folder, "with/job.ts")).href;
    const trainer = new AgentTrainer({ ...settings, module });
    const onStep = (): void => {};
    expect(await trainer.train({ onStep })).toEqual({
      job: "j",
      request: { module, definition: trainer.definition, onStep },
    });
  });

  it("rejects where the module is only loaded to play episodes", async () => {
    process.env["WHETSTONE_MODULE_HOST"] = "1";
    const rejected = expect(new AgentTrainer(settings).train()).rejects;
    await rejected.toMatchObject({ code: "FAILED_PRECONDITION", message: expect.stringContaining("import.meta.main") });
  });
});
