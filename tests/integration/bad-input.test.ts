// SPDX-License-Identifier: Apache-2.0
// Bad input is refused before anything starts: exit code 2, the field's path and the reason (I11).
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

describe("whet train with a bad job", () => {
  let runtime: LocalRuntime;
  let folder: string;
  let untemplated: string;

  beforeAll(async () => {
    runtime = await startLocalRuntime();
    folder = mkdtempSync(join(tmpdir(), "whetstone-jobs-"));
    untemplated = join(folder, "untemplated");
    cpSync(runtime.model, untemplated, { recursive: true });
    writeFileSync(join(untemplated, "tokenizer_config.json"), "{}");
  }, 120_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each<[string, () => JsonObject, string, RegExp]>([
    [
      "an unknown setting",
      () => ({ loop: { steps: 3, batchGroup: 8 } }),
      "loop.batchGroup",
      /unknown setting.*batchGroups/,
    ],
    ["a wrong type", () => ({ loop: { steps: "many", batchGroups: 8 } }), "loop.steps", /many/],
    [
      "a group of one with GRPO",
      () => ({ algorithm: { policyGradient: { groupSize: 1 } } }),
      "algorithm.policyGradient.groupSize",
      /at least 2: the advantage compares/,
    ],
    ["a model folder that is not there", () => ({ model: { path: "/nowhere/model" } }), "model.path", /nowhere/],
    ["a model without chat template", () => ({ model: { path: untemplated } }), "model.path", /chat template/],
    [
      "an unknown environment",
      () => ({ environment: { kind: "frozenpond" } }),
      "environment.kind",
      /frozenpond.*frozenlake/,
    ],
    ["an unknown agent", () => ({ agent: { kind: "penguin" } }), "agent.kind", /penguin.*frozenlake/],
    [
      "an argument that the environment does not take",
      () => ({ environment: { kind: "frozenlake", args: { size: 99 } } }),
      "environment.args.size",
      /10/,
    ],
    [
      "an argument that the agent does not take",
      () => ({ agent: { kind: "frozenlake", args: { variant: "compact", wariant: 1 } } }),
      "agent.args.wariant",
      /unknown, known are variant/,
    ],
    ["a dataset that is not there", () => ({ train: { jsonl: "/nowhere/tasks.jsonl" } }), "train.jsonl", /nowhere/],
  ])("%s is refused with its path", (_name, change, path, reason) => {
    const file = join(folder, "job.json");
    writeFileSync(file, JSON.stringify({ ...smallJob("bad", runtime.model), ...change() }));
    const { status, json, output } = runtime.whet("train", file);
    expect(status, output).toBe(2);
    const { violations } = (json as { error: { violations: { path: string; reason: string }[] } }).error;
    expect(violations.find((violation) => violation.path === path)?.reason, output).toMatch(reason);
    expect((runtime.whet("jobs", "ls").json as { jobs: unknown[] }).jobs, "nothing was stored").toEqual([]);
  });

  it("an environment that returns NaN is refused with its file and line, after one episode in a rehearsal", () => {
    writeFileSync(
      join(folder, "lake.ts"),
      `import { BaseEnv, defineEnvironment } from "@whetstone/sdk";
class Lake extends BaseEnv {
  reset() { return { observation: "P_G", info: {} }; }
  step() { return { observation: "", reward: NaN, terminated: true, truncated: false, info: {} }; }
}
export const lake = defineEnvironment({ kind: "lake", create: () => new Lake() });`,
    );
    const job = { ...smallJob("bad", runtime.model), module: "lake.ts", environment: { kind: "lake" } };
    writeFileSync(join(folder, "job.json"), JSON.stringify(job));
    const { status, json, output } = runtime.whet("train", join(folder, "job.json"));
    expect(status, output).toBe(2);
    const { violations } = (json as { error: { violations: { path: string; reason: string }[] } }).error;
    expect(violations[0]).toMatchObject({ path: "environment" });
    expect(violations[0]?.reason).toMatch(/ENVIRONMENT step: .*step\(\) returned reward NaN.*\(lake\.ts:4\)/);
  }, 120_000);

  it("all processes together stay under 4 GiB", () => {
    const { services } = runtime.whet("status").json as { services: { rssBytes: number }[] };
    const total = services.reduce((sum, service) => sum + service.rssBytes, 0);
    expect(total).toBeLessThan(4 * 2 ** 30);
    expect(total).toBeGreaterThan(0);
  });
});
