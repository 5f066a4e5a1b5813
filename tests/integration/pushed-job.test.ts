// SPDX-License-Identifier: Apache-2.0
// A job of pushed parts alone, through the real services: model, tasks and a corpus that the env-runner fetches by digest. It
// trains, keeps its files when their names are gone, and is deleted with all of it.
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { stringify } from "yaml";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";

let runtime: LocalRuntime;
const folder = mkdtempSync(join(tmpdir(), "whetstone-pushed-"));
beforeAll(async () => {
  runtime = await startLocalRuntime();
}, 240_000);
afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

function whet(...args: string[]): Record<string, unknown> {
  const { status, json, output } = runtime.whet(...args);
  expect(status, output).toBe(0);
  return json as Record<string, unknown>;
}
const file = (name: string, lines: readonly object[]): string => {
  writeFileSync(join(folder, name), lines.map((line) => JSON.stringify(line)).join("\n"));
  return join(folder, name);
};
const stored = (): string[] => readdirSync(join(runtime.data, "artifacts/sha256"));

it("trains, keeps what it was given, and is deleted", () => {
  const names = ["Anna", "Ben", "Cleo", "Dora"];
  const tasks = names.map((name) => ({ id: name, payload: { question: `where is ${name}?`, answer: "Oslo" } }));
  whet("models", "push", "tiny", runtime.model);
  whet("datasets", "push", "homes", file("homes.jsonl", tasks));
  whet("tasks", "push", "atlas", file("atlas.jsonl", [{ id: "1", text: "Anna is in Oslo." }]));
  const job = {
    name: "pushed",
    model: { path: "artifact://models/tiny" },
    agent: { kind: "tool", args: { systemPrompt: "", describeTools: false } },
    environment: { kind: "tool", args: { tools: ["search"], corpus: "artifact://tasks/atlas/atlas.jsonl" } },
    train: { jsonl: "artifact://datasets/homes" },
    algorithm: { policyGradient: { groupSize: 2 } },
    loop: { steps: 2, batchGroups: 4 },
    sampling: { maxTokens: 8 },
    limits: { maxSteps: 2, maxPromptTokens: 64, maxResponseTokens: 400, episodeTimeout: "60s" },
  };
  writeFileSync(join(folder, "job.yaml"), stringify(job));
  const { status, output } = runtime.whet("train", join(folder, "job.yaml"));
  expect(status, output).toBe(0);
  const { spec, uid } = whet("jobs", "get", "pushed") as { spec: typeof job; uid: string };
  const kept = stored().toSorted();
  expect(kept).toHaveLength(3);
  const [model, homes, atlas] = [spec.model.path, spec.train.jsonl, spec.environment.args.corpus].map(
    (text) => /@sha256:([0-9a-f]{64})/.exec(text)?.[1] ?? text,
  );
  expect([model, homes, atlas].toSorted()).toEqual(kept);
  expect(readdirSync(join(runtime.data, "artifact-cache"))).toEqual([atlas]);
  const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 16 };
  expect(whet("jobs", "audit", "pushed")).toMatchObject(sound);

  expect(whet("models", "rm", "tiny")).toMatchObject({ freed: 0, jobs: ["pushed"] });
  expect(stored().toSorted()).toEqual(kept);
  expect(runtime.whet("train", join(folder, "job.yaml"), "--set", "name=again").output).toContain("model.path");

  expect(runtime.whet("jobs", "delete", "pushed").output).toContain("--yes");
  expect(existsSync(join(runtime.data, "runs", uid))).toBe(true);
  const { deleted } = whet("jobs", "delete", "pushed", "--yes") as { deleted: Record<string, unknown> };
  expect(deleted).toMatchObject({ episodes: "16", weights: expect.any(Number) as number });
  expect(existsSync(join(runtime.data, "runs", uid))).toBe(false);
  expect(stored().toSorted()).toEqual([homes, atlas].toSorted()); // Their names are there; the model has neither any more.
  expect(runtime.whet("jobs", "get", "pushed").status).toBe(2);
}, 600_000);
