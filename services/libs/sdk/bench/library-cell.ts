// SPDX-License-Identifier: Apache-2.0
// One cell of the bench's table, as a plain program that uses the SDK: plays FrozenLake at one concurrency against a
// server, and prints one JSON line. Arguments: URL, episodes at once, turns to measure at least. Needs --expose-gc.
import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import {
  AgentExecutionEngine,
  ChatClient,
  createChatPool,
  type Episode,
  FrozenLakeEnv,
  type Task,
} from "../src/index.ts";
import { CompactAgent } from "../src/frozenlake/agents.ts";

const [url = "", atOnce = "64", leastTurns = "20000"] = process.argv.slice(2);
const concurrency = Number(atOnce);
const pool = createChatPool(url, concurrency);
/** Of the random walk: what an episode lasts on average, about. */
const TURNS_AN_EPISODE = 3.5;
const RESOLUTION_MS = 5;

function engineFor(model: string): AgentExecutionEngine {
  return new AgentExecutionEngine({
    rolloutClient: () => new ChatClient({ baseUrl: url, model, pool }),
    agentFactory: () => new CompactAgent(),
    environmentFactory: ({ seed }) => new FrozenLakeEnv({ ...LAKE, seed: Number(seed) }),
    nParallelAgents: concurrency,
  });
}

const LAKE = {
  size: 4,
  frozenProbability: 0.8,
  slippery: false,
  maxSteps: 5,
  observation: "compact",
  stepDiscount: 1,
} as const;

function tasksOf(count: number): Task[] {
  return Array.from({ length: count }, (_, i) => ({ id: `t${i}`, payload: { seed: i >> 3 } }));
}

interface Totals {
  episodes: number;
  turns: number;
  failed: number;
}

async function play(engine: AgentExecutionEngine, tasks: readonly Task[]): Promise<Totals> {
  const totals = { episodes: 0, turns: 0, failed: 0 };
  const count = ({ trajectories, failure }: Episode): void => {
    totals.episodes += 1;
    totals.turns += trajectories[0]?.steps.length ?? 0;
    if (failure.class !== "NONE") totals.failed += 1;
  };
  for await (const episode of engine.trajectoryGenerator(tasks)) count(episode);
  return totals;
}

/** CPU, wall time and event-loop delay of a run that is warm and has its connections open. */
async function measureSpeed() {
  const engine = engineFor("bench");
  await play(engine, tasksOf(concurrency + 2000));
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  const episodes = Math.ceil(Math.max(Number(leastTurns) / TURNS_AN_EPISODE, 2 * concurrency));
  delay.enable();
  const [cpuBefore, startedAt, waitedBefore] = [process.cpuUsage(), performance.now(), waitedForCpuMs()];
  const totals = await play(engine, tasksOf(episodes));
  const [{ user, system }, wallMs] = [process.cpuUsage(cpuBefore), performance.now() - startedAt];
  delay.disable();
  return {
    ...totals,
    wallMs: Math.round(wallMs),
    turnsPerSecond: Math.round((totals.turns / wallMs) * 1000),
    cpuMsPerTurn: round((user + system) / 1000 / totals.turns),
    loopDelayP99Ms: round(Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS)),
    loopDelayMaxMs: round(Math.max(0, delay.max / 1e6 - RESOLUTION_MS)),
    connections: pool.connections,
    cpuWaitShare: round((waitedForCpuMs() - waitedBefore) / wallMs),
  };
}

/** How long this thread was ready to run but others had the core: a loop delay that is not ours. */
function waitedForCpuMs(): number {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0; // Not Linux.
  }
}

interface Memory {
  readonly heap: number;
  readonly resident: number;
}

async function memory(): Promise<Memory> {
  for (let i = 0; i < 3; i += 1) {
    globalThis.gc?.();
    await pause(100);
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, resident: rss };
}

/** Episodes that wait for a model that never answers, beside none. */
async function measureMemory() {
  const engine = engineFor("parked");
  await play(engineFor("bench"), tasksOf(64));
  const before = await memory();
  const cancel = new AbortController();
  const waiting = engine.executeTasks(tasksOf(concurrency), { signal: cancel.signal });
  while (pool.connections < concurrency) await pause(100); // Each that waits holds one.
  await pause(500);
  const after = await memory();
  cancel.abort();
  await waiting;
  const kibPerEpisode = (field: keyof Memory) => round((after[field] - before[field]) / 1024 / concurrency);
  return { residentKibPerWaiting: kibPerEpisode("resident"), heapKibPerWaiting: kibPerEpisode("heap") };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

const memoryUse = await measureMemory();
const speed = await measureSpeed();
process.stdout.write(`${JSON.stringify({ concurrency, ...speed, ...memoryUse })}\n`);
await pool.destroy();
