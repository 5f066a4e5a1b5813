// SPDX-License-Identifier: Apache-2.0
// An evaluation whose command is killed, and then the whole runtime, goes on by its name: what is sealed is not played again.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import type { EvaluationReport } from "@whetstone/sdk";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it, vi } from "vitest";

import { type LocalRuntime, openLocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const WHET = resolve(import.meta.dirname, "../../services/cli/bin/whet.mjs");
const [TASKS, ATTEMPTS] = [120, 4];
const folder = mkdtempSync(join(tmpdir(), "whetstone-eval-"));
let runtime: LocalRuntime;

beforeAll(async () => {
  runtime = await startLocalRuntime();
  const { algorithm: _a, train: _t, loop: _l, ...job } = smallJob("unused", runtime.model);
  writeFileSync(join(folder, "job.json"), JSON.stringify(job));
}, 120_000);
afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const words = (...more: string[]): string[] => [
  ...["eval", "--job", join(folder, "job.json"), "--name", "judged", "--tasks", `1:${TASKS}`],
  ...["--attempts", String(ATTEMPTS), "--concurrency", "3", ...more],
];

interface Sealed {
  readonly sequence: number;
  readonly episodeId: string;
  readonly digest: string;
}

/** Sealed episodes, in order of arrival. */
function sealed(): Sealed[] {
  const { output, status } = runtime.whet("episodes", "ls", "judged", "--last", "0");
  if (status !== 0) return [];
  return output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Sealed)
    .map(({ sequence, episodeId, digest }) => ({ sequence, episodeId, digest }));
}

async function killedAfter(count: number): Promise<Sealed[]> {
  const child: ChildProcess = spawn(process.execPath, [WHET, ...words(), "--data", runtime.data], { stdio: "ignore" });
  await waitFor(() => Promise.resolve(sealed().length >= count), { timeoutMs: 60_000 });
  child.kill("SIGKILL");
  return sealed();
}

it("goes on after the command was killed, and after the runtime was", async () => {
  const first = await killedAfter(20);
  await runtime.stop("SIGKILL");
  runtime = await openLocalRuntime(runtime);
  const second = await killedAfter(first.length + 20);
  expect(second.length).toBeLessThan(TASKS * ATTEMPTS);

  const report = join(folder, "report");
  const { status, output } = runtime.whet(...words("--report", report));
  expect(status, output).toBe(0);
  const found = JSON.parse(readFileSync(join(report, "report.json"), "utf8")) as EvaluationReport;
  expect(found).toMatchObject({
    name: "judged",
    total: { tasks: TASKS, episodes: TASKS * ATTEMPTS, voided: 0 },
    sources: [{ source: "default", tasks: TASKS }],
  });
  const all = sealed();
  expect(new Set(all.map(({ episodeId }) => episodeId)).size).toBe(TASKS * ATTEMPTS);
  expect(all).toHaveLength(TASKS * ATTEMPTS);
  expect(all.slice(0, first.length)).toEqual(first);
  expect(all.slice(0, second.length)).toEqual(second);

  // Finished, it is only read again.
  expect(runtime.whet(...words("--report", report)).status).toBe(0);
  expect(sealed()).toEqual(all);
  const other = runtime.whet(...words("--temperature", "0.5"));
  expect(other.status).toBe(2);
  expect(other.output).toContain("another spec");
}, 240_000);

it("a registered CSV file is played with its ids and sources, and filtered by what came out", () => {
  vi.stubEnv("WHETSTONE_DATASETS", join(folder, "datasets"));
  const csv = join(folder, "lakes.csv");
  writeFileSync(csv, "id,seed,source\na,1,near\nb,2,far\nc,3,near\nd,4,far\n");
  expect(runtime.whet("datasets", "add", "lakes", csv).status).toBe(0);
  const job = ["--job", join(folder, "job.json"), "--dataset", "lakes", "--take", "3", "--attempts", "2"];
  const { json, output } = runtime.whet("eval", ...job, "--report", join(folder, "lakes"));
  const report = json as EvaluationReport;
  expect(
    report.tasks.map(({ id, source, episodes }) => [id, source, episodes]),
    output,
  ).toEqual([
    ["a", "near", 2],
    ["b", "far", 2],
    ["c", "near", 2],
  ]);
  expect(report.sources.map(({ source, episodes }) => [source, episodes])).toEqual([
    ["far", 2],
    ["near", 4],
  ]);
  const by = ["--eval", join(folder, "lakes/report.json"), "--as", "played"];
  expect(runtime.whet("datasets", "filter", "lakes", ...by).json).toMatchObject({ rows: 3 });
  vi.unstubAllEnvs();
});
