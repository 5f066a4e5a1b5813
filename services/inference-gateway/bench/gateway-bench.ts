// SPDX-License-Identifier: Apache-2.0
// Requests a second and CPU milliseconds a request of the gateway, with an engine that answers at once in a process of
// its own. Prints one line of JSON. `node services/inference-gateway/bench/gateway-bench.ts [seconds] [--prof]`
import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { Pool } from "undici";
import { serveGateway } from "./served-gateway.ts";

const seconds = Number(process.argv[2] ?? 5);
const profile = process.argv.includes("--prof") ? ["--cpu-prof", "--cpu-prof-dir=/tmp/gateway-prof"] : [];

/** A clock tick of /proc/<pid>/stat, milliseconds. */
const TICK_MS = 10;

function cpuMs(child: ChildProcess): number {
  const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** 21 tokens with the tiny model: two markers and nineteen bytes. Few texts, as the states of a small game. */
function body(index: number): string {
  const content = `S${String(index % 40).padStart(2, "0")}FFHFHFFFHHFFGFFF`;
  return JSON.stringify({ model: "job", messages: [{ role: "user", content }], max_tokens: 4, seed: index });
}

interface Result {
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly cpuMsPerRequest: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Sessions of five calls, each read and closed after them, as an episode does. */
async function measure(pool: Pool, gateway: ChildProcess, concurrency: number, forMs: number): Promise<Result> {
  const took: number[] = [];
  const [startMs, startCpuMs] = [performance.now(), cpuMs(gateway)];
  let sessions = 0;
  const player = async (): Promise<void> => {
    while (performance.now() - startMs < forMs) {
      const session = `/s/bench-${concurrency}-${sessions++}`;
      for (let turn = 0; turn < 5; turn++) took.push(await chat(pool, session, turn, took.length));
      const calls = await pool.request({ method: "GET", path: `${session}/calls?close=true`, headers: PROTOBUF });
      await calls.body.arrayBuffer();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, player));
  const [elapsedMs, usedMs] = [performance.now() - startMs, cpuMs(gateway) - startCpuMs];
  const inOrder = took.toSorted((a, b) => a - b);
  const round = (value: number): number => Number(value.toFixed(3));
  return {
    concurrency,
    requestsPerSecond: Math.round((took.length * 1000) / elapsedMs),
    cpuMsPerRequest: round(usedMs / took.length),
    p50Ms: round(inOrder[Math.floor(took.length / 2)] ?? 0),
    p99Ms: round(inOrder[Math.floor(took.length * 0.99)] ?? 0),
  };
}

const PROTOBUF = { accept: "application/x-protobuf" };
/** What our own client sends with every call. */
const HEADERS = { "content-type": "application/json", "x-whetstone-role": "agent", "x-whetstone-timeout-ms": "300000" };

async function chat(pool: Pool, session: string, turn: number, index: number): Promise<number> {
  const sentMs = performance.now();
  const headers = { ...HEADERS, "x-whetstone-idempotency-key": String(turn) };
  const options = {
    method: "POST",
    path: `${session}/v1/chat/completions`,
    headers,
    body: body(index),
  } as const;
  const { statusCode, body: answer } = await pool.request(options);
  const text = await answer.text();
  if (statusCode !== 200) throw new Error(`HTTP ${statusCode}: ${text}`);
  return performance.now() - sentMs;
}

await using gateway = await serveGateway({ nodeArgs: profile });
const results: Result[] = [];
for (const concurrency of [64, 512]) {
  const pool = new Pool(gateway.url, { connections: concurrency });
  await measure(pool, gateway.process, concurrency, 1000);
  results.push(await measure(pool, gateway.process, concurrency, seconds * 1000));
  await pool.close();
}
process.stdout.write(`${JSON.stringify({ bench: "inference-gateway", seconds, results })}\n`);
