// SPDX-License-Identifier: Apache-2.0
// What a warm pod costs its user, on the cluster of KUBECONFIG, one JSON line: --claims 50, --warm 8, --provider agentSandbox.
import { parseArgs } from "node:util";
import type { Sandbox } from "@whetstone/sandbox";
import { openSandboxPools } from "../../support/sandbox-pools.ts";

const { values } = parseArgs({
  options: {
    claims: { type: "string", default: "50" },
    warm: { type: "string", default: "8" },
    provider: { type: "string", default: "pods" },
  },
});
const [claims, warm] = [Number(values.claims), Number(values.warm)];
const provider = values.provider === "agentSandbox" ? "agentSandbox" : "pods";
const TTL_MS = 300_000;

function percentiles(taken: readonly number[]): { p50Ms: number; p99Ms: number } {
  const sorted = [...taken].sort((a, b) => a - b);
  const at = (share: number): number => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
  return { p50Ms: at(0.5), p99Ms: at(0.99) };
}

const times = { claim: [] as number[], firstCommand: [] as number[], command: [] as number[], release: [] as number[] };

async function timed<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await work();
  into.push(performance.now() - startedAt);
  return result;
}

const spec = { provider, warm, max: 3 * warm, memoryMiB: 64, diskMiB: 16, cpus: 0.5 } as const;
await using pools = await openSandboxPools("bench");
await pools.pool("bench", spec);
await using backend = await pools.backend("bench");
for (let i = 0; i < claims; i += 1) {
  await pools.pool("bench", spec);
  const sandbox: Sandbox = await timed(times.claim, () => backend.open({ ttlMs: TTL_MS }));
  await timed(times.firstCommand, () => sandbox.exec(["true"]).result);
  await timed(times.command, () => sandbox.exec(["true"]).result);
  await timed(times.release, () => sandbox.close());
}
const of = Object.fromEntries(Object.entries(times).map(([name, taken]) => [name, percentiles(taken)]));
console.log(JSON.stringify({ warmPods: { provider, claims, warm, ...of } }));
