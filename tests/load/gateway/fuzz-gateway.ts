// SPDX-License-Identifier: Apache-2.0
/**
 * Mutated requests to every endpoint at both ports, and random bytes, against a gateway in a process of its own, while somebody
 * has the same conversation again and again beside it. Every answer must be right or refuse in the dialect's own form, the
 * conversation must be recorded as it is undisturbed, no call may stay at an engine, and the heap must come back. Prints one JSON
 * line; exit status 1 otherwise.
 *
 *   node tests/load/gateway/fuzz-gateway.ts [--requests 100000] [--bytes 1000000] [--seed 1]
 *
 * `--requests`: at each endpoint.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import { callsAtEngines, converse } from "../../../services/inference-gateway/test/fuzz/bystander.ts";
import { fuzzBytes, fuzzEndpoint, type Tally } from "../../../services/inference-gateway/test/fuzz/fuzz.ts";
import { ENDPOINTS } from "../../../services/inference-gateway/test/fuzz/sound-requests.ts";
import { templatedModel } from "../../../services/inference-gateway/test/templated-model.ts";
import { start, type Started } from "../../../services/libs/sdk/bench/processes.ts";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "100000" },
    bytes: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
  },
});
const [requests, bytes, seed] = [Number(values.requests), Number(values.bytes), Number(values.seed)];
const CONCURRENCY = 16;
const SHOWN = 3;
const TURNS = 8;
const MAX_BODY_BYTES = 65_536;
/** Of these, and of long prompts, caches are filled: what grows after them is lost memory. */
const WARM_UP = { requests: 2_500, seed: seed + 1_000_000 };
const LONG_PROMPTS = 2_000;
const LONG_PROMPT_CHARS = 900;
/** Of the heap after the warm-up, at most. */
const MAX_GROWTH = 1.1;
const MAIN = join(import.meta.dirname, "../../../services/inference-gateway/src/main.ts");
const READY = /(\{[^\n]*"httpUrl"[^\n]*"event":"ready"[^\n]*\})/;
const say = (text: string): void => void process.stderr.write(`${text}\n`);

interface Gateway {
  readonly service: Started;
  readonly httpUrl: string;
  readonly agentsUrl: string;
}

async function startGateway(engineUrl: string, modelPath: string): Promise<Gateway> {
  const env = {
    WHETSTONE_SUPERVISED: "1", // It ends with this process, however that ends.
    ...{ WHETSTONE_HTTP_PORT: "0", WHETSTONE_GRPC_PORT: "0", WHETSTONE_AGENT_PORT: "0" },
    ...{ WHETSTONE_ENGINES: `e0=${engineUrl}`, WHETSTONE_MAX_BODY_BYTES: String(MAX_BODY_BYTES) },
  };
  const flags = ["--expose-gc", "--import", join(import.meta.dirname, "heap-probe.ts")];
  const service = await start(MAIN, [], READY, { env, flags });
  const ready = JSON.parse(service.found) as { httpUrl: string; agentsUrl: string; grpcAddress: string };
  await using fleet = createClient(FleetService, ready.grpcAddress);
  await fleet.unfenceEngine({ id: "e0", policy: { policy: "job", policyVersion: 1n, label: "job:1", modelPath } });
  return { service, ...ready };
}

/** MiB after a full collection. */
function heapOf({ child, pid }: Started): Promise<number> {
  return new Promise((resolve) => {
    let text = "";
    const read = (chunk: Buffer): void => {
      text += chunk.toString();
      const found = /heap-probe (\d+)\n/.exec(text)?.[1];
      if (found === undefined) return;
      child.stderr?.off("data", read);
      resolve(Number(found) / 2 ** 20);
    };
    child.stderr?.on("data", read);
    process.kill(pid, "SIGUSR2");
  });
}

/** The same conversation until the work is done; how many times, and how many were recorded otherwise. */
async function besideIt(httpUrl: string, undisturbed: string, work: Promise<unknown>) {
  const told = { conversations: 0, changed: 0 };
  let isDone = false;
  void work.finally(() => (isDone = true)).catch(() => undefined);
  while (!isDone) {
    told.conversations++;
    if ((await converse(httpUrl, "bystander", TURNS)) !== undisturbed) told.changed++;
  }
  await work;
  return told;
}

async function everyEndpoint(
  gateway: Gateway,
  options: { requests: number; seed: number },
): Promise<Record<string, Tally>> {
  const tallies: Record<string, Tally> = {};
  for (const endpoint of ENDPOINTS) {
    const { requests: count, seed: from } = options;
    const tally = await fuzzEndpoint(gateway, endpoint, { seed: from, count, concurrency: CONCURRENCY });
    tallies[endpoint.path] = tally;
    for (const fault of tally.faults.slice(0, SHOWN)) say(fault);
    say(
      `${endpoint.path}: ${tally.requests} requests, ${tally.faults.length} faults, ${JSON.stringify(tally.byStatus)}`,
    );
  }
  return tallies;
}

/** Prompts that are kept as text and as ids, until there is no room for more. */
async function fillCaches({ httpUrl }: Gateway): Promise<void> {
  for (let i = 0; i < LONG_PROMPTS; i++) {
    const messages = [{ role: "user", content: `${i} `.repeat(LONG_PROMPT_CHARS).slice(0, LONG_PROMPT_CHARS) }];
    const body = JSON.stringify({ model: "job", messages, max_tokens: 1 });
    const response = await fetch(`${httpUrl}/v1/chat/completions`, { method: "POST", body });
    if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    await response.arrayBuffer();
  }
}

async function bothPorts({ httpUrl, agentsUrl }: Gateway): Promise<Tally[]> {
  return await Promise.all([httpUrl, agentsUrl].map((url) => fuzzBytes(url, bytes / 2)));
}

async function main(): Promise<void> {
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "whetstone-fuzz-gateway-"));
  try {
    await using engine = await start(join(import.meta.dirname, "fuzz-engine.ts"), [], /(http:\S+)/);
    const gateway = await startGateway(engine.found, templatedModel(folder, "qwen3"));
    await using service = gateway.service;
    const undisturbed = await converse(gateway.httpUrl, "bystander", TURNS);
    const first = await everyEndpoint(gateway, WARM_UP);
    await fillCaches(gateway);
    const before = await heapOf(service);
    const work = (async () => ({
      endpoints: await everyEndpoint(gateway, { requests, seed }),
      bytes: await bothPorts(gateway),
    }))();
    const bystander = await besideIt(gateway.httpUrl, undisturbed, work);
    const done = await work;
    const after = await heapOf(service);
    const left = await callsAtEngines(gateway.httpUrl);
    const faults = [...Object.values(first), ...Object.values(done.endpoints), ...done.bytes].flatMap(
      (tally) => tally.faults,
    );
    const summary = ({ requests: count, byStatus, slowestMs, faults: { length } }: Tally): object => ({
      requests: count,
      byStatus,
      slowestMs: Math.round(slowestMs),
      faults: length,
    });
    const line = {
      ...{ fuzz: "gateway", seed, bystander },
      endpoints: Object.fromEntries(Object.entries(done.endpoints).map(([path, tally]) => [path, summary(tally)])),
      bytes: { sent: bytes, ofPorts: done.bytes.map(summary) },
      callsLeft: left,
      heapMiB: { before: Number(before.toFixed(1)), after: Number(after.toFixed(1)) },
      ...{ firstFaults: faults.slice(0, 10), seconds: Math.round((performance.now() - startedAt) / 1000) },
    };
    process.stdout.write(`${JSON.stringify(line)}\n`);
    const isSound = faults.length === 0 && bystander.changed === 0 && left === 0 && after <= before * MAX_GROWTH;
    process.exitCode = isSound ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
