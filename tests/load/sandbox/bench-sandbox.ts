// SPDX-License-Identifier: Apache-2.0
// What sandboxes cost, one JSON line: --opens 100, --forks 50, --at-once 500, --level A; --episodes 64 of repairing a library, by a
// script; --swe-rex PYTHON: beside SWE-ReX's local deployment, with a Python that has requirements-swe-rex.txt.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { LEVELS, type PreparedState, ProcessBackend, type Sandbox } from "@whetstone/sandbox";
import { makeRepository, REPOSITORY_MB } from "./repository.ts";
import { sweEpisodes } from "./swe-episodes.ts";

const { values } = parseArgs({
  options: {
    opens: { type: "string", default: "100" },
    forks: { type: "string", default: "50" },
    "at-once": { type: "string", default: "500" },
    level: { type: "string", default: "A" },
    episodes: { type: "string", default: "64" },
    "swe-rex": { type: "string" },
  },
});
const level = LEVELS.find((name) => name === values.level);
const AT_A_TIME = 16;
const SWE_REX_MS = 600_000;

/** Milliseconds, one after the other. */
async function times(count: number, work: () => Promise<unknown>): Promise<{ p50Ms: number; p99Ms: number }> {
  const taken: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const startedAt = performance.now();
    await work();
    taken.push(performance.now() - startedAt);
  }
  taken.sort((a, b) => a - b);
  const at = (share: number): number => round(taken[Math.min(count - 1, Math.floor(count * share))] ?? 0);
  return { p50Ms: at(0.5), p99Ms: at(0.99) };
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** Opens, and closes outside the time that is taken. */
async function timesOfOpen(count: number, prepared?: PreparedState) {
  const opened: Sandbox[] = [];
  const taken = await times(count, async () => {
    opened.push(await backend.open({ level, prepared }));
    // No more than a few are there at a time.
    if (opened.length > 1) void opened.shift()?.close();
  });
  await Promise.all(opened.map((sandbox) => sandbox.close()));
  return taken;
}

async function many(count: number) {
  const before = availableMiB();
  const startedAt = performance.now();
  const sandboxes: Sandbox[] = [];
  let left = count;
  const opener = async (): Promise<void> => {
    while (left-- > 0) {
      const sandbox = await backend.open({ level });
      sandboxes.push(sandbox);
      await sandbox.exec(["sh", "-c", "echo up; read line"]).chunks()[Symbol.asyncIterator]().next();
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, opener));
  const seconds = (performance.now() - startedAt) / 1000;
  const [kernelToo, ofProcesses] = [before - availableMiB(), ownMiB()];
  const closingAt = performance.now();
  await Promise.all(sandboxes.map((sandbox) => sandbox.close()));
  const closeS = round((performance.now() - closingAt) / 1000);
  return { sandboxes: count, perSecond: round(count / seconds), ...each(count, { kernelToo, ofProcesses }), closeS };
}

/** The same of SWE-ReX, whose sessions are isolated from nothing. */
function ofSweRex(python: string | undefined): unknown {
  if (python === undefined) return undefined;
  const args = [join(import.meta.dirname, "swe_rex.py"), values.opens, values["at-once"]];
  const { status, stdout, stderr } = spawnSync(python, args, { encoding: "utf8", timeout: SWE_REX_MS });
  if (status !== 0) throw new Error(`swe_rex.py ended with ${status}: ${stderr.slice(-2000)}`);
  return JSON.parse(stdout);
}

/** What is no longer available, which is only right on a machine where nothing else goes on; and what the processes have. */
function each(count: number, { kernelToo, ofProcesses }: { kernelToo: number; ofProcesses: number }) {
  return { mebibytesEach: round(kernelToo / count), processMebibytesEach: round(ofProcesses / count) };
}

/** Of all processes of sandboxes: their own pages, and their share of those that several have. */
function ownMiB(): number {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/u.test(name));
  const parents = new Map(pids.map((pid) => [pid, fieldOf(`/proc/${pid}/status`, /^PPid:\s+(\d+)/mu)]));
  const isOurs = (pid: string | undefined): boolean =>
    pid !== undefined && (parents.get(pid) === String(process.pid) || isOurs(parents.get(pid)));
  const kibibytes = pids.filter(isOurs).map((pid) => Number(fieldOf(`/proc/${pid}/smaps_rollup`, /^Pss:\s+(\d+)/mu)));
  return kibibytes.reduce((total, each) => total + (each || 0), 0) / 1024;
}

function fieldOf(path: string, pattern: RegExp): string | undefined {
  try {
    return pattern.exec(readFileSync(path, "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

function availableMiB(): number {
  return Number(/MemAvailable: +(\d+)/u.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) / 1024;
}

const BARE = ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"];

const folder = mkdtempSync(join(tmpdir(), "whetstone-bench-"));
await using backend = await ProcessBackend.start();
try {
  makeRepository(folder);
  await using warm = await backend.open({ level });
  const preparing = performance.now();
  await using prepared = await backend.prepare(folder);
  const prepareMs = Math.round(performance.now() - preparing);
  const result = {
    level: warm.level,
    // What bubblewrap takes by itself, as a scale.
    bareBubblewrap: await times(Number(values.opens), async () => spawnSync("bwrap", BARE)),
    open: await timesOfOpen(Number(values.opens)),
    exec: await times(Number(values.opens), () => warm.exec(["true"]).result),
    fork: {
      ...(await timesOfOpen(Number(values.forks), prepared)),
      repositoryMB: REPOSITORY_MB,
      prepareMs,
    },
    atOnce: await many(Number(values["at-once"])),
    sweEpisodes: await sweEpisodes(Number(values.episodes)),
    sweRex: ofSweRex(values["swe-rex"]),
  };
  console.log(JSON.stringify(result));
} finally {
  rmSync(folder, { recursive: true });
}
