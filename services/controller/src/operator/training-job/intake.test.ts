// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Kube, Stored } from "@whetstone/kube";
import type { BundleStore } from "@whetstone/messaging";
import { AgentForm } from "@whetstone/proto/rollouts/v1/rollouts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TrainingJob } from "./schema.ts";
import type { Intake } from "./facts.ts";
import { intakeOf } from "./intake.ts";
import { Artifacts } from "../../artifacts/artifacts.ts";
import { checkWorld, type WorldDeps } from "../../jobs/validation/external-checks.ts";

let folder: string;
let model: string;
let asked: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-intake-"));
  model = join(folder, "model");
  asked = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

function makeModel(): void {
  mkdirSync(model);
  for (const file of ["config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"])
    writeFileSync(join(model, file), "{}");
}

/** Its agents are the built-in ones; no env-runner is there to rehearse with. */
const world: WorldDeps = {
  environmentsLast: true,
  trainerClient: {} as WorldDeps["trainerClient"],
  engines: {} as WorldDeps["engines"],
  artifacts: new Artifacts("/nowhere", () => Promise.resolve(new Map())),
  rollouts: {
    describeAgents: () =>
      Promise.resolve({ kinds: [{ kind: "frozenlake", form: AgentForm.AGENT, argsSchemaJson: "" }] }),
    replay: () => Promise.resolve({ differences: [] }),
  } as unknown as WorldDeps["rollouts"],
  findHost: (pool) => {
    asked.push(pool);
    return Promise.resolve(
      pool === "default" ? {} : { violation: { path: "environment.pool", reason: "unknown", curable: true } },
    );
  },
};

function look(over: JsonObject = {}): Promise<Intake> {
  const job: JsonObject = {
    model: { path: model },
    agent: { kind: "frozenlake" },
    environment: { kind: "frozenlake" },
    train: { seeds: { first: "1", count: "100" } },
    algorithm: { policyGradient: { groupSize: 4, optimizer: { learningRate: 0.001 } } },
    loop: { steps: 3, batchGroups: 2, maxPolicyLag: 1 },
    sampling: { temperature: 1, maxTokens: 2 },
    limits: { maxSteps: 6, maxPromptTokens: 64, maxResponseTokens: 8, episodeTimeout: "60s" },
    ...over,
  };
  const object = { metadata: { name: "j" }, spec: { job } } as unknown as Stored<TrainingJob>;
  const deps = {
    config: { onDemand: false },
    kube: {} as Kube,
    bundles: {} as BundleStore,
    checkWorld: (...args: Parameters<typeof checkWorld> extends [infer S, infer M, unknown] ? [S, M] : never) =>
      checkWorld(...args, world),
  };
  return intakeOf(object, deps, new AbortController().signal);
}

const paths = (intake: Intake): string[] =>
  intake.kind === "missing" || intake.kind === "invalid" ? intake.violations.map(({ path }) => path) : [];

describe("intakeOf", () => {
  it("waits for a model folder, and takes the job when it is there", async () => {
    const first = await look();
    expect([first.kind, paths(first)]).toEqual(["missing", ["spec.job.model.path"]]);
    mkdirSync(model);
    expect((await look()).kind).toBe("missing");
    rmSync(model, { recursive: true });
    makeModel();
    expect((await look()).kind).toBe("valid");
  });

  it("waits for agents, pools and task files", async () => {
    makeModel();
    const agent = await look({ agent: { kind: "nobody" } });
    expect([agent.kind, paths(agent)]).toEqual(["missing", ["spec.job.agent.kind"]]);
    const pool = await look({ environment: { kind: "frozenlake", pool: "elsewhere" } });
    expect([pool.kind, paths(pool)]).toEqual(["missing", ["spec.job.environment.pool"]]);
    const tasks = await look({ train: { jsonl: join(folder, "tasks.jsonl") } });
    expect([tasks.kind, paths(tasks)]).toEqual(["missing", ["spec.job.train.jsonl"]]);
  });

  it("does not wake a pool for a job that lacks something else", async () => {
    await look();
    expect(asked).toEqual([]);
    makeModel();
    await look();
    expect(asked).toEqual(["default"]);
  });

  it("refuses for good what the text itself has wrong, though something is missing, too", async () => {
    const relative = await look({ model: { path: "models/mine" } });
    expect([relative.kind, paths(relative)]).toEqual(["invalid", ["spec.job.model.path"]]);
    const both = await look({ model: { path: "models/mine" }, agent: { kind: "nobody" } });
    expect([both.kind, paths(both)]).toEqual(["invalid", ["spec.job.model.path", "spec.job.agent.kind"]]);
    expect((await look({ loop: { steps: 3, batchGroups: 0 } })).kind).toBe("invalid");
  });
});
