// SPDX-License-Identifier: Apache-2.0
// Task folders of Harbor's through all services: a hundred episodes of who knows how are paid by the tasks' own tests, who does not
// or cheats is not, and tests that hang, say nothing or nonsense are never a reward.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { FAULTS, SOUND, writeTask } from "@whetstone/harbor/test-support";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../../..");
const LIMIT_MS = 600_000;
const WHOLE = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };

interface Refused {
  readonly error: { readonly violations: readonly { readonly path: string; readonly reason: string }[] };
}

describe.runIf(canHaveSandboxes)("task folders of Harbor's", () => {
  let runtime: LocalRuntime;
  let folder: string;
  let tasks: string;

  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/harbor-"));
    tasks = join(folder, "tasks");
    for (const [name, files] of Object.entries({ ...SOUND, ...FAULTS })) writeTask(tasks, name, files);
    writeTask(tasks, "several", { ...SOUND.words, "task.toml": "[[steps]]\nname = 'first'\n" });
    writeTask(tasks, "packages", {
      ...SOUND.words,
      "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nRUN apt-get update && apt-get install -y curl\n",
    });
    writeTask(tasks, "stages", { ...SOUND.words, "environment/Dockerfile": "FROM a\nFROM b\nWORKDIR /app\n" });
    runtime = await startLocalRuntime();
  }, LIMIT_MS);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  function train(
    name: string,
    names: readonly string[],
    size: { steps: number; groups: number },
    args: JsonObject = {},
  ) {
    const rows = join(folder, `${name}.jsonl`);
    writeFileSync(rows, names.map((task) => JSON.stringify({ payload: { task } })).join("\n"));
    const job = {
      ...smallJob(name, runtime.model, size),
      agent: { kind: name.split("-")[0] ?? name },
      environment: { kind: "harbor", args: { tasks, ...args } },
      train: { jsonl: rows },
      module: { path: join(import.meta.dirname, "harbor-policies.ts") },
      limits: { maxSteps: 3, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "120s", retryLimit: 0 },
    };
    const file = join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(job));
    return runtime.whet("train", file);
  }

  /** Share of the episodes that succeeded, by the tasks' own tests, step by step. */
  async function rates(name: string): Promise<number[]> {
    await using jobs = createClient(JobService, runtime.address("controller"));
    const found: number[] = [];
    for await (const { event } of jobs.streamMetrics({ name, follow: false }))
      if (event.case === "step") found.push(event.value.metrics["rollout/success"] ?? Number.NaN);
    return found;
  }

  it(
    "pay who knows how, for a hundred episodes",
    async () => {
      const { status, output } = train("solver", ["words", "adder"], { steps: 5, groups: 5 });
      expect(status, output).toBe(0);
      expect(runtime.whet("jobs", "audit", "solver").json).toMatchObject({ ...WHOLE, trained: 100, voided: 0 });
      expect(await rates("solver")).toEqual([1, 1, 1, 1, 1]);
    },
    LIMIT_MS,
  );

  it(
    "examples/harbor is proved, pushed and trained as its page says",
    async () => {
      const example = join(ROOT, "examples/harbor");
      const proved = runtime.whet("tasks", "verify", join(example, "tasks"));
      expect(proved.status, proved.output).toBe(0);
      const pushed = runtime.whet("tasks", "push", "harbor-example", join(example, "tasks"));
      expect(pushed.status, pushed.output).toBe(0);
      const job = parse(readFileSync(join(example, "job.yaml"), "utf8")) as JsonObject;
      const file = join(folder, "example.json");
      const known = { agent: { kind: "solver" }, module: { path: join(import.meta.dirname, "harbor-policies.ts") } };
      writeFileSync(file, JSON.stringify({ ...job, ...known, train: { jsonl: join(example, "train.jsonl") } }));
      const short = ["loop.steps=1", "loop.batchGroups=2", "sampling.maxTokens=2", "limits.maxPromptTokens=256"];
      const set = [...short, "limits.maxResponseTokens=256"].flatMap((each) => ["--set", each]);
      const trained = runtime.whet("train", file, "--model", runtime.model, ...set);
      expect(trained.status, trained.output).toBe(0);
      expect(runtime.whet("jobs", "audit", "harbor").json).toMatchObject({ ...WHOLE, trained: 16, voided: 0 });
      expect(await rates("harbor")).toEqual([1]);
    },
    LIMIT_MS,
  );

  it.each(["nonsense", "cheat"])(
    "do not pay %s, and void nothing of it",
    async (name) => {
      const { status, output } = train(name, ["words", "adder"], { steps: 1, groups: 5 });
      expect(status, output).toBe(0);
      expect(runtime.whet("jobs", "audit", name).json).toMatchObject({ ...WHOLE, trained: 20, voided: 0 });
      expect(await rates(name)).toEqual([0]);
    },
    LIMIT_MS,
  );

  it(
    "whose tests hang, say nothing or nonsense are voided, and the others are paid",
    async () => {
      const names = ["words", "hangs", "silent", "nonsense", "adder"];
      const { status, output } = train("solver-trouble", names, { steps: 1, groups: 10 });
      expect(status, output).toBe(0);
      const audit = runtime.whet("jobs", "audit", "solver-trouble").json as { trained: number; voided: number };
      expect(audit).toMatchObject({ ...WHOLE, trained: 16, voided: 24 });
      expect(await rates("solver-trouble")).toEqual([1]);
    },
    LIMIT_MS,
  );

  it.each([
    ["nowhere", {}, "environment.args.task", /nowhere\/task\.toml: cannot be read/u],
    ["several", {}, "environment.args.task", /several\/task\.toml: steps: is not played here/u],
    ["words", { memoryMiB: 64 }, "environment.args.memoryMiB", /words\/task\.toml wants 256 MiB/u],
    [
      "words",
      { states: "/a", sandbox: { backend: "docker" } },
      "environment.args.states",
      /is of the backend process/u,
    ],
    ["words", { sandbox: { backend: "kubernetes" } }, "environment.args.image", /names no environment\.docker_image/u],
    ["stages", {}, "environment.args.task", /stages\/environment\/Dockerfile:2: a second stage/u],
    ["packages", {}, "environment.args", /packages\/environment\/Dockerfile:3: RUN apt-get/u],
  ] as const)(
    "refuse %s with %j before anything starts",
    (task, args, path, reason) => {
      const { status, json, output } = train("solver-refused", [task], { steps: 1, groups: 5 }, args);
      expect(status, output).toBe(2);
      const violation = { path, reason: expect.stringMatching(reason) as string };
      expect((json as Refused).error.violations).toMatchObject([violation]);
    },
    60_000,
  );
});
