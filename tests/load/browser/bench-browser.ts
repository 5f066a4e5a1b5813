// SPDX-License-Identifier: Apache-2.0
// What browsers cost, one JSON line: steps for each CPU second of one core with the tree, and with a picture beside it; memory of
// a context, time of a reset; beside BrowserGym on the same page in the same run.
//   node tests/load/browser/bench-browser.ts [--seconds 20] [--contexts 8] [--browsergym PYTHON]
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BrowserEnvironment, Miniwob } from "@whetstone/browser";
import { miniwobFolder, startTestPool } from "@whetstone/browser/test-support";

const TASK = "click-test-2";
const ACTION = "press('13', 'Shift')";
const TICKS_PER_SECOND = 100;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "20" },
    contexts: { type: "string", default: "8" },
    browsergym: { type: "string", default: "" },
  },
});
const [seconds, contexts] = [Number(values.seconds), Number(values.contexts)];
const folder = miniwobFolder();
const miniwob = Miniwob.in(folder);
if (miniwob === undefined) throw new Error("MiniWoB++ is not installed");

await using own = await startTestPool({ contextsPerBrowser: contexts + 1 });
const open = (picture?: { readonly marks: boolean }) =>
  new BrowserEnvironment({ pool: () => own.pool, task: miniwob.task(TASK), maxSteps: 1_000_000, picture });

const first = open();
await first.reset({ seed: 0 });
const base = memoryMiB();
const resets: number[] = [];
const environments: BrowserEnvironment[] = [];
for (let seed = 1; seed <= contexts; seed += 1) {
  const environment = open();
  const started = performance.now();
  await environment.reset({ seed });
  resets.push(performance.now() - started);
  environments.push(environment);
}
const contextMiB = (memoryMiB() - base) / contexts;
const tree = await stepFor(environments);
await closeAll(environments);
const pictures = await stepWith({ marks: false });
const marks = await stepWith({ marks: true });
await first.close();

const gym = values.browsergym;
const beside = gym !== "" && existsSync(gym) ? browserGym(gym) : undefined;
const load = loadavg()[0];
const report = {
  task: TASK,
  contexts,
  seconds,
  load,
  tree,
  pictures,
  marks,
  resetP50Ms: median(resets),
  baseMiB: base,
  contextMiB,
};
console.log(JSON.stringify({ ...rounded(report), browserGym: beside ?? null }));

/** The same with a picture beside each tree. */
async function stepWith(picture: { readonly marks: boolean }) {
  const seeing = Array.from({ length: contexts }, () => open(picture));
  for (const [seed, environment] of seeing.entries()) await environment.reset({ seed: seed + 1 });
  const found = await stepFor(seeing);
  await closeAll(seeing);
  return found;
}

async function closeAll(all: readonly BrowserEnvironment[]): Promise<void> {
  await Promise.all(all.map((environment) => environment.close()));
}

/** All of them step at once. */
async function stepFor(all: readonly BrowserEnvironment[]) {
  const started = performance.now();
  const cpu = cpuSeconds();
  let steps = 0;
  const go = async (environment: BrowserEnvironment): Promise<void> => {
    for (; performance.now() - started < seconds * 1000; steps += 1) await environment.step(ACTION);
  };
  await Promise.all(all.map(go));
  const wall = (performance.now() - started) / 1000;
  return { stepsPerSecond: steps / wall, stepsPerCpuSecond: steps / (cpuSeconds() - cpu) };
}

function browserGym(python: string): unknown {
  const script = join(import.meta.dirname, "browsergym_steps.py");
  const env = { ...process.env, PLAYWRIGHT_BROWSERS_PATH: join(python, "../../browsers") };
  const args = [script, join(folder, "miniwob/html"), TASK, String(seconds)];
  return JSON.parse(execFileSync(python, args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
}

/** Proportional set size of all browsers: memory that several processes share counts once. */
function memoryMiB(): number {
  const sizes = below(process.pid).map((pid) =>
    Number(/^Pss:\s+(\d+)/mu.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0),
  );
  return sizes.reduce((sum, size) => sum + size, 0) / 1024;
}

/** Of this process and all below it. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  const ticks = below(process.pid).map((pid) => {
    const fields = read(`/proc/${pid}/stat`).split(") ").at(-1)?.split(" ") ?? [];
    return Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
  });
  return (user + system) / 1e6 + ticks.reduce((sum, each) => sum + each, 0) / TICKS_PER_SECOND;
}

function below(pid: number): number[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const children = threads.flatMap((thread) =>
      read(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean),
    );
    return children.map(Number).flatMap((child) => [child, ...below(child)]);
  } catch {
    return []; // It ended meanwhile.
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

function rounded<T>(value: T): T {
  return JSON.parse(
    JSON.stringify(value, (_, each: unknown) => (typeof each === "number" ? Math.round(each * 10) / 10 : each)),
  ) as T;
}
