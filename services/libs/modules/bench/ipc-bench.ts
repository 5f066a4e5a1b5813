// SPDX-License-Identifier: Apache-2.0
/**
 * Cost of a child's start and of one call into it, in a sandbox and without: `node services/libs/modules/bench/ipc-bench.ts [calls]`.
 * One JSON line for each concurrency.
 */
import { silentLogger } from "@whetstone/telemetry";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { HostProcess } from "../src/host-process.ts";
import { ModuleSandboxes } from "../src/isolation.ts";

const CALLS = Number(process.argv[2] ?? 100_000);

/** As large as a step's question and answer. */
const STEP = { session: 17, action: "Left" };
const STARTS = 5;

await using sandboxes = new ModuleSandboxes();
let host: HostProcess;
for (const none of [true, false]) {
  const startMs: number[] = [];
  for (let i = 0; i < STARTS; i += 1) {
    host = openHost(none);
    const startedAt = performance.now();
    await host.call("echo", STEP);
    startMs.push(Math.round(performance.now() - startedAt));
    if (i < STARTS - 1) await host.close();
  }
  console.log(JSON.stringify({ sandbox: !none, startMs }));
  await run(5_000, 64); // Warm.
  for (const concurrency of [1, 64, 512]) await measure(none, concurrency);
  await host!.close();
}

async function measure(none: boolean, concurrency: number): Promise<void> {
  const before = { at: performance.now(), own: process.cpuUsage() };
  await run(CALLS, concurrency);
  const wallUs = (performance.now() - before.at) * 1000;
  const { user, system } = process.cpuUsage(before.own);
  const perCall = (us: number): number => Math.round((us / CALLS) * 10) / 10;
  const line = { sandbox: !none, concurrency, wallUs: perCall(wallUs), serviceCpuUs: perCall(user + system) };
  console.log(JSON.stringify(line));
}

function openHost(none: boolean): HostProcess {
  const isolation = sandboxes.isolationOf({ none, network: [] });
  return new HostProcess({
    entry: new URL("../test-support/odd-child.ts", import.meta.url),
    name: "bench",
    data: { code: new TextEncoder().encode("export function act() {}") },
    limits: DEFAULT_LIMITS,
    isolation: () => isolation.get(),
    logger: silentLogger,
  });
}

async function run(calls: number, concurrency: number): Promise<void> {
  let left = calls;
  const one = async (): Promise<void> => {
    while (left-- > 0) await host.call("echo", STEP);
  };
  await Promise.all(Array.from({ length: concurrency }, one));
}
