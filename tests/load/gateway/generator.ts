// SPDX-License-Identifier: Apache-2.0
// The load generator of bench-gateway.ts: does the work that its argument names (work.ts) and prints what it measured, JSON.
import { setTimeout as delay } from "node:timers/promises";
import { cpuMs } from "../../../services/libs/sdk/bench/processes.ts";
import { Client, percentiles, round } from "./client.ts";
import { Prompts } from "./prompts.ts";
import { CALLS, PROMPT_CHARS, TURN_CHARS } from "./work.ts";
import type { Added, Conversations, FixedRate, Measured, Throughput, TurnCost, TurnCosts, Work } from "./work.ts";

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

const prompts = new Prompts(process.pid);
const same = prompts.next(PROMPT_CHARS);
const contentOf = (prompt: Throughput["prompt"]): string =>
  prompt === "identical" ? same : prompts.next(PROMPT_CHARS);
const user = (content: string): Message => ({ role: "user", content });

function cpuOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuMs(pid), 0);
}

async function throughput({ target, prompt, concurrency, seconds }: Throughput): Promise<Measured> {
  await using client = new Client(target, concurrency);
  const took: number[] = [];
  const until = performance.now() + seconds * 1000;
  return await measured(target.pids, took, () =>
    inParallel(concurrency, async (player) => {
      for (let round = 0; performance.now() < until; round++) {
        const session = client.session(`calls-${player}-${round}`);
        for (let i = 0; i < CALLS; i++) took.push((await session.chat([user(contentOf(prompt))])).ms);
        await session.close();
      }
    }),
  );
}

async function conversations({ target, sessions, turns }: Conversations): Promise<Measured> {
  await using client = new Client(target, sessions);
  const took: number[] = [];
  return await measured(target.pids, took, () =>
    inParallel(sessions, async (player) => {
      const session = client.session(`conversation-${player}`);
      const messages: Message[] = [];
      for (let turn = 0; turn < turns; turn++) took.push(await play(session, messages));
      await session.close();
    }),
  );
}

/** One turn more; milliseconds. */
async function play(session: ReturnType<Client["session"]>, messages: Message[]): Promise<number> {
  messages.push(user(prompts.next(TURN_CHARS)));
  const { ms, content } = await session.chat(messages);
  messages.push({ role: "assistant", content });
  return ms;
}

/** Turns are told from 1. */
async function turnCosts({ target, sessions, rounds, early, late }: TurnCosts): Promise<TurnCost[]> {
  await using client = new Client(target, sessions);
  const costs = new Map([early, late].map((turn) => [turn, { took: [] as number[], cpu: 0 }]));
  for (let round = 0; round < rounds; round++) {
    const players = Array.from({ length: sessions }, (_, player) => client.session(`turns-${round}-${player}`));
    const spoken = players.map((): Message[] => []);
    for (let turn = 1; turn <= late; turn++) {
      const before = cpuOf(target.pids);
      const took = await Promise.all(players.map((player, i) => play(player, spoken[i] as Message[])));
      await delay(SETTLE_MS);
      const cost = costs.get(turn);
      cost?.took.push(...took);
      if (cost) cost.cpu += cpuOf(target.pids) - before;
    }
    for (const player of players) await player.close();
  }
  const calls = sessions * rounds;
  return [...costs].map(([turn, { took, cpu }]) => ({ turn, cpuMs: round(cpu / calls), ...percentiles(took) }));
}

/** What a process still does after its answers (garbage, sockets) belongs to them. */
const SETTLE_MS = 20;

/** Engine and gateway take turns, so that both see the same neighbours. */
async function fixedRate(work: FixedRate): Promise<Added> {
  const { target, engineUrl, perSecond, seconds } = work;
  await using client = new Client(target, CONNECTIONS);
  await using engine = new Client({ ...target, urls: [engineUrl] }, CONNECTIONS);
  const ids = await client.idsOf([user(same)]);
  const took = { engine: [] as number[], gateway: [] as number[] };
  for (let slice = 0; slice < 2 * SLICES; slice++) {
    const isEngine = slice % 2 === 0;
    const session = client.session(`rate-${slice}`);
    const contents = Array.from({ length: (perSecond * seconds) / SLICES }, () => contentOf(work.prompt));
    const ask = isEngine
      ? () => engine.generate(ids)
      : async (i: number) => (await session.chat([user(contents[i] as string)])).ms;
    const list = isEngine ? took.engine : took.gateway;
    list.push(...(await atRate(perSecond, contents.length, ask)));
    await session.close();
  }
  return { engine: percentiles(took.engine), gateway: percentiles(took.gateway) };
}

const SLICES = 10;
const CONNECTIONS = 64;

/** Milliseconds of each call, from the moment it was due: a generator that is late counts it in. */
async function atRate(perSecond: number, count: number, ask: (i: number) => Promise<number>): Promise<number[]> {
  const startedAt = performance.now();
  const asked: Promise<number>[] = [];
  while (asked.length < count) {
    const due = Math.min(count, Math.ceil(((performance.now() - startedAt) * perSecond) / 1000));
    while (asked.length < due) asked.push(ask(asked.length));
    await delay(1);
  }
  return await Promise.all(asked);
}

async function measured(pids: readonly number[], took: number[], work: () => Promise<void>): Promise<Measured> {
  const [startedAt, cpuBefore] = [performance.now(), cpuOf(pids)];
  await work();
  const [elapsedMs, usedMs] = [performance.now() - startedAt, cpuOf(pids) - cpuBefore];
  const rate = Math.round((took.length * 1000) / elapsedMs);
  return { requestsPerSecond: rate, cpuMsPerRequest: round(usedMs / took.length), ...percentiles(took) };
}

async function inParallel(count: number, work: (index: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, index) => work(index)));
}

function done(work: Work): Promise<unknown> {
  switch (work.kind) {
    case "throughput":
      return throughput(work);
    case "rate":
      return fixedRate(work);
    case "conversations":
      return conversations(work);
    case "turns":
      return turnCosts(work);
  }
}

process.stdout.write(`${JSON.stringify(await done(JSON.parse(process.argv[2] ?? "") as Work))}\n`);
