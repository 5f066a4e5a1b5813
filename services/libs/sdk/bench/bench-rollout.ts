// SPDX-License-Identifier: Apache-2.0
// How fast episodes play: as a library over real HTTP, and through the services, against a scripted engine in a process of
// its own. Prints a table and one JSON line. What is measured has core 0 to itself, the engine, NATS and this process core 1.
// `node bench-rollout.ts [--part library|services] [--levels 64,512] [--latencies 0,50] [--turns 20000]`
import { spawnSync } from "node:child_process";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { canPin, cpuMs, start, type Started } from "./processes.ts";
import { measureServices } from "./services-cell.ts";

const { values } = parseArgs({
  options: {
    part: { type: "string" },
    levels: { type: "string", default: "64,512,2000,10000" },
    latencies: { type: "string", default: "0,50" },
    turns: { type: "string", default: "20000" },
  },
});
const numbers = (list: string): number[] => list.split(",").map(Number);
const levels = numbers(values.levels);
/** With so long an answer all episodes of the highest level wait for the engine at the same time. */
const LONG_LATENCY_MS = 2_000;
const TIMEOUT_MS = 600_000;

type Numbers = Readonly<Record<string, number>>;
interface Row {
  readonly part: string;
  readonly latencyMs: number;
  readonly concurrency: number;
  readonly turnsPerSecond: number;
  readonly cpuMsPerTurn: number | Numbers;
  readonly failed: number;
  readonly loopDelayP99Ms: number | Numbers;
  readonly heapKibPerWaiting?: number;
  readonly residentKibPerWaiting?: number;
  readonly residentKibPerEpisode?: Numbers;
}

function startEngine(latencyMs: number): Promise<Started> {
  return start(join(import.meta.dirname, "engine-process.ts"), [String(latencyMs)], /(http:\S+)/, { core: 1 });
}

type Measured = Omit<Row, "part" | "latencyMs">;

async function libraryCell(engine: Started, concurrency: number): Promise<Measured> {
  const args = [engine.found, String(concurrency), values.turns];
  const flags = ["--expose-gc"];
  await using cell = await start(join(import.meta.dirname, "library-cell.ts"), args, /(\{.*\})\n/, { core: 0, flags });
  return JSON.parse(cell.found) as Measured;
}

async function row(part: string, latencyMs: number, concurrency: number): Promise<Row> {
  await using engine = await startEngine(latencyMs);
  const before = cpuMs(engine.pid);
  const measured =
    part === "library"
      ? await libraryCell(engine, concurrency)
      : await measureServices({ engineUrl: engine.found, concurrency, leastTurns: Number(values.turns) });
  const engineCpuMs = cpuMs(engine.pid) - before;
  const row = { part, latencyMs, ...measured };
  return Object.assign(row, { engineCpuMs });
}

const text = (value: number | Numbers): string =>
  typeof value === "number" ? String(value) : Object.values(value).join(" + ");

function print(row: Row): void {
  const resident = row.residentKibPerWaiting ?? row.residentKibPerEpisode ?? 0;
  const cells = [
    ...[row.part, row.latencyMs, row.concurrency, row.turnsPerSecond, text(row.cpuMsPerTurn)],
    ...[row.heapKibPerWaiting ?? "", text(resident), text(row.loopDelayP99Ms), row.failed],
  ];
  console.log(`| ${cells.join(" | ")} |`);
}

if (canPin) spawnSync("taskset", ["-cp", "1", String(process.pid)]); // Inherited by the engine and NATS.
const timer = setTimeout(() => {
  console.log("bench-rollout: not done within the time limit");
  process.exit(1);
}, TIMEOUT_MS * 2);
console.log(
  "| part | latency, ms | episodes at once | turns/s | CPU ms a turn | heap KiB waiting | resident KiB | loop delay p99, ms | failed |",
);
console.log(`|${" --- |".repeat(9)}`);
const rows: Row[] = [];
for (const part of values.part === undefined ? ["library", "services"] : [values.part]) {
  const cells = numbers(values.latencies).flatMap((latencyMs) => levels.map((level) => [latencyMs, level] as const));
  if (part === "library") cells.push([LONG_LATENCY_MS, Math.max(...levels)]);
  for (const [latencyMs, level] of cells) {
    const measured = await row(part, latencyMs, level);
    rows.push(measured);
    print(measured);
  }
}
clearTimeout(timer);
const machine = { cpu: cpus()[0]?.model, cores: availableParallelism(), pinned: canPin, node: process.version };
console.log(JSON.stringify({ bench: "rollout", machine, rows }));
