// SPDX-License-Identifier: Apache-2.0
/** Cost of one call into a child: `node services/libs/modules/bench/ipc-bench.ts [calls]`. One JSON line for each concurrency. */
import { readFileSync } from "node:fs";
import { silentLogger } from "@whetstone/telemetry";
import { DEFAULT_LIMITS } from "../src/child-process.ts";
import { HostProcess } from "../src/host-process.ts";

const CALLS = Number(process.argv[2] ?? 100_000);
const TICK_US = 10_000;

const host = new HostProcess({
  entry: new URL("../test-support/odd-child.ts", import.meta.url),
  name: "bench",
  data: { code: new TextEncoder().encode("export function act() {}") },
  limits: DEFAULT_LIMITS,
  logger: silentLogger,
});
/** As large as a step's question and answer. */
const STEP = { session: 17, action: "Left" };
await run(5_000, 64); // Warm.
for (const concurrency of [1, 64, 512]) {
  const before = { at: performance.now(), own: process.cpuUsage(), child: childCpuUs() };
  await run(CALLS, concurrency);
  const wallUs = (performance.now() - before.at) * 1000;
  const { user, system } = process.cpuUsage(before.own);
  const perCall = (us: number): number => Math.round((us / CALLS) * 10) / 10;
  const line = {
    concurrency,
    wallUs: perCall(wallUs),
    serviceCpuUs: perCall(user + system),
    childCpuUs: perCall(childCpuUs() - before.child),
  };
  console.log(JSON.stringify(line));
}
await host.close();

async function run(calls: number, concurrency: number): Promise<void> {
  let left = calls;
  const one = async (): Promise<void> => {
    while (left-- > 0) await host.call("echo", STEP);
  };
  await Promise.all(Array.from({ length: concurrency }, one));
}

/** User and system time of the child, from its stat. */
function childCpuUs(): number {
  const stat = readFileSync(`/proc/${host.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}
