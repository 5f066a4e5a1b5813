// SPDX-License-Identifier: Apache-2.0
// What tools of MCP servers cost, one JSON line: calls a second over stdio and HTTP through a real env-runner, beside the official
// client alone with the same server in the same run; whole episodes with a server each, and what they leave.
//   node tests/load/mcp/bench-mcp.ts [--calls 900] [--sessions 4] [--episodes 1000]
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { freePort, waitFor } from "@whetstone/testkit";
import { startEnvRunner } from "../../../services/rollout-orchestrator/test-support/env-runner-process.ts";
import { Episodes, installed, processesWith, SERVERS } from "../../integration/mcp/episodes.ts";

const PROGRAM = `${SERVERS}/@modelcontextprotocol/server-everything/dist/index.js`;
const MESSAGE = "a word";
const TICKS_PER_SECOND = 100;
/** The server does not read it, and nothing else has it on a command line. */
const MARKER = `bench-mcp-${process.pid}`;

const { values } = parseArgs({
  options: {
    calls: { type: "string", default: "900" },
    sessions: { type: "string", default: "4" },
    episodes: { type: "string", default: "1000" },
  },
});
/** `calls`: of each session; an episode has at most 1,000 turns. */
const [calls, sessions, wanted] = [Number(values.calls), Number(values.sessions), Number(values.episodes)];
const stdio = installed("everything", "stdio", MARKER);

const port = await freePort();
const shared = await startShared(port);
const url = `http://127.0.0.1:${port}/mcp`;
const slots = { WHETSTONE_SLOTS: String(4 * sessions), WHETSTONE_MCP_SERVERS_PATH: SERVERS };
const runner = await startEnvRunner({ env: slots });
const episodes = new Episodes(runner.address);
try {
  const report = {
    sessions,
    stdio: { throughEnvironment: await ours(stdio), clientAlone: await alone(stdioClient) },
    http: { throughEnvironment: await ours({ url }), clientAlone: await alone(httpClient) },
    episodes: await wholeEpisodes(),
    leftAfterKill: await leftAfterKill(),
  };
  console.log(
    JSON.stringify(report, (_, each: unknown) => (typeof each === "number" ? Math.round(each * 10) / 10 : each)),
  );
} finally {
  await episodes[Symbol.asyncDispose]();
  await runner[Symbol.asyncDispose]();
  shared.kill("SIGKILL");
}

/** Sessions that call one after the other, all at once. */
async function ours(args: Parameters<Episodes["open"]>[0]) {
  const open = Array.from({ length: sessions }, () => episodes.open({ ...args, maxSteps: calls + 1, tools: ["echo"] }));
  for (const episode of open) await begin(episode);
  const rate = await rateOf(
    open.map((episode) => async () => check((await episode.call("echo", { message: MESSAGE })).output)),
  );
  await Promise.all(open.map((episode) => episode.close()));
  return rate;
}

/** The same with the official client, and without a sandbox. */
async function alone(connect: () => Promise<Client>) {
  const clients = await Promise.all(Array.from({ length: sessions }, connect));
  const rate = await rateOf(
    clients.map((client) => async () => {
      const { content } = await client.callTool({ name: "echo", arguments: { message: MESSAGE } });
      const [first] = content as { text?: string }[];
      check(first?.text ?? "");
    }),
  );
  await Promise.all(clients.map((client) => client.close()));
  return rate;
}

async function rateOf(callers: readonly (() => Promise<void>)[]) {
  const [begun, cpu] = [performance.now(), cpuSeconds()];
  const go = async (call: () => Promise<void>): Promise<void> => {
    for (let i = 0; i < calls; i++) await call();
  };
  await Promise.all(callers.map(go));
  const taken = (performance.now() - begun) / 1000;
  const all = calls * callers.length;
  return { callsPerSecond: all / taken, cpuMsPerCall: (1000 * (cpuSeconds() - cpu)) / all };
}

async function begin(episode: ReturnType<Episodes["open"]>): Promise<void> {
  const { failed, message } = await episode.reset();
  if (failed !== undefined) throw new Error(`${failed}: ${message}`);
}

function check(said: string): void {
  if (said !== `Echo: ${MESSAGE}`) throw new Error(`the server said ${JSON.stringify(said)}`);
}

/** A server of its own each, one call, an answer. */
async function wholeEpisodes() {
  const [begun, resets] = [performance.now(), [] as number[]];
  let next = 0;
  const player = async (): Promise<void> => {
    while (next++ < wanted) {
      const episode = episodes.open({ ...stdio, tools: ["echo"] });
      const opened = performance.now();
      await begin(episode);
      resets.push(performance.now() - opened);
      check((await episode.call("echo", { message: MESSAGE })).output);
      const { reward } = await episode.answer("right");
      if (reward !== 1) throw new Error(`a right answer was paid ${reward}`);
      await episode.close();
    }
  };
  await Promise.all(Array.from({ length: sessions }, player));
  const perMinute = resets.length / ((performance.now() - begun) / 60_000);
  resets.sort((a, b) => a - b);
  const at = (share: number): number => resets[Math.floor(share * (resets.length - 1))] ?? 0;
  return {
    played: resets.length,
    perMinute,
    resetP50Ms: at(0.5),
    resetP99Ms: at(0.99),
    left: processesWith(MARKER).length,
  };
}

/** Processes ten seconds after an env-runner was killed with sessions open. */
async function leftAfterKill(): Promise<number> {
  const other = await startEnvRunner({ env: slots });
  await using own = new Episodes(other.address);
  const open = Array.from({ length: sessions }, () => own.open(stdio));
  for (const episode of open) await begin(episode);
  if (processesWith(MARKER).length < sessions) throw new Error("the servers are not there");
  await other.kill();
  await waitFor(() => processesWith(MARKER).length === 0, { timeoutMs: 10_000 }).catch(() => undefined);
  return processesWith(MARKER).length;
}

async function startShared(port: number): Promise<ChildProcess> {
  const env = { ...process.env, PORT: String(port) };
  const server = spawn(process.execPath, [PROGRAM, "streamableHttp"], { env, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  server.stderr.on("data", (data: Buffer) => (log += data.toString()));
  await waitFor(() => log.includes("listening on port"), { what: "the server to listen", timeoutMs: 30_000 });
  return server;
}

async function stdioClient(): Promise<Client> {
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [PROGRAM, "stdio"], stderr: "ignore" }),
  );
  return client;
}

async function httpClient(): Promise<Client> {
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

/** Of this process and all below it that live. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + below(process.pid).reduce((sum, pid) => sum + ticksOf(pid), 0) / TICKS_PER_SECOND;
}

function below(pid: number): number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
  return children.flatMap((child) => [child, ...below(child)]);
}

function ticksOf(pid: number): number {
  const fields = read(`/proc/${pid}/stat`).split(") ").at(-1)?.split(" ") ?? [];
  return Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // It ended meanwhile.
  }
}
