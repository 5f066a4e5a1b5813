// SPDX-License-Identifier: Apache-2.0
// Cancel while a service is stopped, not dead: its connections are open, and it answers nobody.
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type BareClient, openBareClient } from "../support/bare-client.ts";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

let runtime: LocalRuntime;
let client: BareClient;

beforeAll(async () => {
  runtime = await startLocalRuntime();
  client = await openBareClient(runtime.address("controller"));
}, 120_000);

afterAll(async () => {
  client[Symbol.dispose]();
  await runtime[Symbol.asyncDispose]();
});

async function statusOf(name: string): Promise<{ phase?: string; step?: number }> {
  return ((await client.call("GetJob", { name }))["job"] as { status: { phase?: string; step?: number } }).status;
}

const kill = (pid: number, signal: NodeJS.Signals): boolean => process.kill(pid, signal);

it.each(["engine", "trainer", "gateway"])(
  "a job is cancelled while the %s is stopped, its books are sound, and the next job ends well",
  async (part) => {
    const name = `stopped-${part}`;
    const pid = runtime.services().find((service) => service.name.startsWith(part))?.pid;
    if (!pid) throw new Error(`no ${part}`); // Signals to 0 go to the tests themselves.
    await client.call("SubmitJob", { spec: smallJob(name, runtime.model, { steps: 1000, lag: 1 }) });
    await waitFor(async () => ((await statusOf(name)).step ?? 0) >= 2, { timeoutMs: 60_000 });
    kill(pid, "SIGSTOP");
    try {
      await new Promise((resolve) => setTimeout(resolve, 1000)); // Whoever needs the part waits for it by now.
      await client.call("CancelJob", { name });
      await waitFor(async () => (await statusOf(name)).phase === "JOB_PHASE_CANCELLED", { timeoutMs: 30_000 });
    } finally {
      kill(pid, "SIGCONT");
    }
    const { lost, duplicated, stale, unlabelled } = await client.call("AuditJob", { name });
    expect([lost, duplicated, stale, unlabelled]).toEqual([undefined, undefined, undefined, undefined]); // All 0.
    await client.call("SubmitJob", { spec: smallJob(`after-${part}`, runtime.model, { steps: 2 }) });
    await waitFor(async () => (await statusOf(`after-${part}`)).phase === "JOB_PHASE_SUCCEEDED", { timeoutMs: 60_000 });
  },
  180_000,
);
