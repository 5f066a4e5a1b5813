// SPDX-License-Identifier: Apache-2.0
// What sandboxes in containers cost, one JSON line: --opens 20, --forks 10, --at-once 16, --image python:3.11-slim-bookworm.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { PreparedState } from "@whetstone/sandbox";
import { DockerBackend } from "@whetstone/sandbox/docker";

import { daemonProgram } from "../../../services/libs/sandbox/test-support/daemon-program.ts";
import { makeRepository, REPOSITORY_MB } from "./repository.ts";

const { values } = parseArgs({
  options: {
    opens: { type: "string", default: "20" },
    forks: { type: "string", default: "10" },
    "at-once": { type: "string", default: "16" },
    image: { type: "string", default: "python:3.11-slim-bookworm" },
  },
});
const AT_A_TIME = 4;

interface Times {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

function percentiles(taken: readonly number[]): Times {
  const sorted = [...taken].sort((a, b) => a - b);
  const at = (share: number): number => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
  return { p50Ms: at(0.5), p99Ms: at(0.99) };
}

async function timed<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await work();
  into.push(performance.now() - startedAt);
  return result;
}

/** One after the other. */
async function lives(backend: DockerBackend, count: number, prepared?: PreparedState): Promise<Record<string, Times>> {
  const times = { open: [] as number[], exec: [] as number[], close: [] as number[] };
  for (let i = 0; i < count; i += 1) {
    const sandbox = await timed(times.open, () => backend.open({ prepared }));
    await timed(times.exec, () => sandbox.exec(["true"]).result);
    await timed(times.close, () => sandbox.close());
  }
  return Object.fromEntries(Object.entries(times).map(([name, taken]) => [name, percentiles(taken)]));
}

async function many(backend: DockerBackend, count: number): Promise<{ sandboxes: number; opensPerSecond: number }> {
  const startedAt = performance.now();
  let left = count;
  const opener = async (): Promise<void> => {
    while (left-- > 0) await backend.open();
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, opener));
  const seconds = (performance.now() - startedAt) / 1000;
  return { sandboxes: count, opensPerSecond: Math.round((10 * count) / seconds) / 10 };
}

const folder = mkdtempSync(join(tmpdir(), "whetstone-bench-"));
await using backend = await DockerBackend.start({ daemonPath: daemonProgram(), image: values.image });
try {
  makeRepository(folder);
  await using prepared = await backend.prepare(folder);
  const { open, exec, close } = await lives(backend, Number(values.opens));
  const { open: fork } = await lives(backend, Number(values.forks), prepared);
  const atOnce = await many(backend, Number(values["at-once"]));
  console.log(JSON.stringify({ containers: { open, exec, close, fork, repositoryMB: REPOSITORY_MB, atOnce } }));
} finally {
  rmSync(folder, { recursive: true });
}
