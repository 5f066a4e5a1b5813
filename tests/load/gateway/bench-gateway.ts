// SPDX-License-Identifier: Apache-2.0
// What the gateway costs, one JSON line: real gateway processes before an engine that answers at once, load from a process of its
// own. Prompts of 2 kB, identical and distinct; growing conversations; a fixed rate beside the engine asked directly.
//   node tests/load/gateway/bench-gateway.ts [--seconds 8] [--only throughput,rate] [--beside] [--prof FOLDER]
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { cpuMs, residentKiB, start } from "../../../services/libs/sdk/bench/processes.ts";
import { type Gateways, makeModel, startOurs, startPortkey, startRllm } from "./gateways.ts";
import { markdown } from "./prompts.ts";
import type { Added, Measured, Prompt, Target, TurnCost, Work } from "./work.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "8" },
    only: { type: "string", default: "throughput,rate,conversations,turns" },
    beside: { type: "boolean", default: false },
    prof: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const parts = values.only.split(",");
const has = (part: string): boolean => parts.includes(part);

const ANSWER_TOKENS = 16;
const CONCURRENCY = 64;
const PER_SECOND = 500;
const WARM_UP_SECONDS = 6;
/** See deploy/local/setup-model-gateways.sh. */
const OTHERS = join(import.meta.dirname, "../../../.whetstone/model-gateways");
const PROMPTS: readonly Prompt[] = ["identical", "distinct"];
const [EARLY_TURN, LATE_TURN] = [2, 50];
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const round = (value: number): number => Math.round(value * 100) / 100;

/** In a process of its own. */
async function generate<Result>(work: Work): Promise<Result> {
  await using run = await start(join(import.meta.dirname, "generator.ts"), [JSON.stringify(work)], /^([[{].*[\]}])$/m);
  say(`${work.kind} ${"prompt" in work ? work.prompt : ""} ${run.found}`);
  return JSON.parse(run.found) as Result;
}

async function throughput(target: Target, prompt: Prompt): Promise<Measured> {
  const work = { kind: "throughput", target, prompt, concurrency: CONCURRENCY } as const;
  await generate({ ...work, seconds: 2 }); // What is compiled or loaded for it once.
  return await generate<Measured>({ ...work, seconds });
}

async function bothPrompts(target: Target): Promise<Record<Prompt, Measured>> {
  const [identical, distinct] = [await throughput(target, "identical"), await throughput(target, "distinct")];
  return { identical, distinct };
}

async function added(target: Target, engineUrl: string) {
  const found: Record<string, object> = {};
  for (const prompt of PROMPTS) {
    const work = { kind: "rate", target, engineUrl, prompt, perSecond: PER_SECOND, seconds: 2 * seconds } as const;
    const { engine, gateway } = await generate<Added>(work);
    const [p50Ms, p99Ms] = [round(gateway.p50Ms - engine.p50Ms), round(gateway.p99Ms - engine.p99Ms)];
    found[prompt] = { p50Ms, p99Ms, ofEngine: engine };
  }
  return { perSecond: PER_SECOND, ...found };
}

/** With the most memory that the gateways had, and what they have a few seconds after all sessions were closed. */
async function conversations(target: Target, sessions: number) {
  const resident = (): number => target.pids.reduce((sum, pid) => sum + residentKiB(pid), 0) / 1024;
  const [before, watch] = [resident(), { most: 0 }];
  const timer = setInterval(() => (watch.most = Math.max(watch.most, resident())), 100);
  const measured = await generate<Measured>({ kind: "conversations", target, sessions, turns: 20 });
  clearInterval(timer);
  return { ...measured, residentMiB: { before: round(before), most: round(watch.most), after: round(resident()) } };
}

async function turns(target: Target) {
  const work = { kind: "turns", target, sessions: 64, rounds: 3, early: EARLY_TURN, late: LATE_TURN } as const;
  const [early, late] = await generate<TurnCost[]>(work);
  if (early === undefined || late === undefined) throw new Error("the generator told of no turns");
  return { early, late, cpuRatio: round(late.cpuMs / early.cpuMs), p50Ratio: round(late.p50Ms / early.p50Ms) };
}

/** Everything, with so many replicas. */
async function replicas(count: number, options: { engineUrl: string; modelPath: string }) {
  const flags = values.prof === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.prof}`];
  await using gateways = await startOurs({ ...options, count, flags });
  const { target } = gateways;
  // Each replica compiles its code by itself: they get as many calls each as one alone does.
  const warmUp = WARM_UP_SECONDS * count;
  await generate({ kind: "throughput", target, prompt: "distinct", concurrency: CONCURRENCY, seconds: warmUp });
  return {
    ...(has("throughput") ? { throughput: await bothPrompts(target) } : {}),
    ...(has("rate") && count === 1 ? { added: await added(target, options.engineUrl) } : {}),
    ...(has("turns") && count === 1 ? { turns: await turns(target) } : {}),
    ...(has("conversations")
      ? { conversations: { of64: await conversations(target, 64), of1000: await conversations(target, 1000) } }
      : {}),
  };
}

type Starter = (folder: string, engineUrl: string) => Promise<Gateways>;

/** The same calls through other people's gateways, which neither render nor tokenise. */
async function beside(engineUrl: string) {
  const others: readonly [name: string, start: Starter][] = [
    ["portkey", startPortkey],
    ["rllm", startRllm],
  ];
  const found: Record<string, object | string> = {};
  for (const [name, startOne] of others) {
    const place = join(OTHERS, name);
    if (!existsSync(place)) {
      found[name] = "not installed: deploy/local/setup-model-gateways.sh";
      continue;
    }
    await using gateway = await startOne(place, engineUrl);
    found[name] = await bothPrompts(gateway.target);
  }
  return found;
}

/** What two replicas have of one, by the clock and by what each call costs: where cores are shared the clock cannot tell. */
function ratios(one: Awaited<ReturnType<typeof replicas>>, two: Awaited<ReturnType<typeof replicas>>) {
  if (!one.throughput || !two.throughput) return {};
  const [alone, together] = [one.throughput.distinct, two.throughput.distinct];
  const byClock = round(together.requestsPerSecond / alone.requestsPerSecond);
  return { twoToOne: { byClock, byCpu: round((2 * alone.cpuMsPerRequest) / together.cpuMsPerRequest) } };
}

async function main(): Promise<void> {
  const modelPath = mkdtempSync(join(tmpdir(), "whetstone-bench-gateway-"));
  try {
    makeModel(modelPath, markdown());
    await using engine = await start(
      join(import.meta.dirname, "engine-process.ts"),
      [String(ANSWER_TOKENS)],
      /(http:\S+)/,
    );
    const load = loadavg().map(round);
    const options = { engineUrl: engine.found, modelPath };
    const one = await replicas(1, options);
    const two =
      values.prof === undefined && (has("throughput") || has("conversations")) ? await replicas(2, options) : {};
    const others = values.beside ? await beside(engine.found) : "not asked for (--beside)";
    const machine = { cpu: cpus()[0]?.model, cores: availableParallelism(), node: process.version, loadBefore: load };
    const engineCpuS = round(cpuMs(engine.pid) / 1000);
    const line = { bench: "gateway", seconds, machine, one, two, ...ratios(one, two), beside: others, engineCpuS };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  } finally {
    rmSync(modelPath, { recursive: true, force: true });
  }
}

await main();
