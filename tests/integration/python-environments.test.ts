// SPDX-License-Identifier: Apache-2.0
// Environments in Python through the real services: the example trains, one of Gymnasium's does, and one that raises, dies and
// hangs costs its own episodes only.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");
const EXAMPLE = join(ROOT, "examples/python-environment");
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };

interface Violations {
  readonly error: { readonly violations: readonly { readonly path: string; readonly reason: string }[] };
}

describe("a job with an environment in Python", () => {
  let runtime: LocalRuntime;
  let folder: string;
  const write = (job: JsonObject): string => {
    const file = join(folder, "job.yaml");
    writeFileSync(file, JSON.stringify(job));
    return file;
  };
  const jobIn = (environment: JsonObject, name: string): JsonObject => ({
    ...smallJob(name, runtime.model, { steps: 2, groups: 4 }),
    agent: { kind: "math" },
    environment: { pool: "python", ...environment },
    limits: { maxSteps: 3, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "60s", retryLimit: 1 },
  });
  const refused = (environment: JsonObject): Violations["error"]["violations"] => {
    const { status, json } = runtime.whet("train", write(jobIn(environment, "refused")));
    expect(status).toBe(2);
    return (json as Violations).error.violations;
  };
  const trained = (name: string, file: string, ...more: string[]): unknown => {
    const { status, output } = runtime.whet("train", file, "--set", `name=${name}`, ...more);
    expect(status, output).toBe(0);
    return runtime.whet("jobs", "audit", name).json;
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-python-"));
    process.env["WHETSTONE_CALL_TIMEOUT_MS"] = "3000";
    const targets = [join(EXAMPLE, "guess.py"), "gymnasium:FrozenLake-v1", "tests/support/troubled_environment.py"];
    runtime = await startLocalRuntime(...targets.flatMap((target) => ["--python-env", target]));
  }, 120_000);
  afterAll(async () => {
    delete process.env["WHETSTONE_CALL_TIMEOUT_MS"];
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it("trains as the example says, and every episode is accounted for", () => {
    const short = ["loop.steps=3", "loop.batchGroups=4"].flatMap((setting) => ["--set", setting]);
    expect(trained("guess", join(EXAMPLE, "job.yaml"), ...short)).toMatchObject({ ...SOUND, trained: 96 });
  }, 120_000);

  it("trains in an environment of Gymnasium", () => {
    const args = { is_slippery: false, actions: ["L", "D", "R", "U"] };
    const file = write(jobIn({ kind: "FrozenLake-v1", args }, "lake"));
    expect(trained("lake", file)).toMatchObject({ ...SOUND, trained: 32 });
  }, 120_000);

  it("voids what raises, dies or hangs, and nothing else", () => {
    const job = jobIn({ kind: "troubled" }, "troubled");
    const file = write({ ...job, train: { seeds: { first: "16", count: "8" } } });
    const audit = trained("troubled", file, "--set", "loop.batchGroups=8", "--set", "loop.steps=1");
    expect(audit).toMatchObject({ ...SOUND, trained: 20, voided: 12 });
    const services = runtime.services();
    expect(services.map(({ name, crashes }) => [name, crashes])).toEqual(services.map(({ name }) => [name, 0]));
  }, 120_000);

  it("is refused with what to do", () => {
    expect(refused({ kind: "guess", pool: "default" })).toMatchObject([
      { path: "environment.kind", reason: expect.stringContaining('set environment.pool to "python"') as string },
    ]);
    expect(refused({ kind: "chess" })).toMatchObject([
      {
        path: "environment.kind",
        reason: expect.stringMatching(
          /known: guess, FrozenLake-v1, troubled; .*docs\/python-environments\.md/,
        ) as string,
      },
    ]);
    expect(refused({ kind: "guess", pool: "snakes" })).toMatchObject([
      { path: "environment.pool", reason: 'unknown pool "snakes"; known: default, python' },
    ]);
    expect(refused({ kind: "guess", args: { highest: "x" } })).toMatchObject([
      { path: "environment.args.highest", reason: "must be a whole number, not 'x'" },
    ]);
    const { status, output } = runtime.whet("train", write(jobIn({ kind: "guess" }, "late")), "--python-env", "x");
    expect([status, output]).toEqual([2, expect.stringContaining("a runtime is up already")]);
  }, 120_000);

  it("has a pool that is shown", () => {
    const { json } = runtime.whet("pools", "ls");
    expect(JSON.stringify(json)).toMatch(/"name":"default".*"name":"python"/);
  });
});
