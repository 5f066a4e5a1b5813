// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LeadingChild } from "../test-support/leading-child.ts";
import { LeaseServer } from "../test-support/lease-server.ts";
import { elect } from "./election.ts";
import { openKube } from "./kube.ts";

/** A third of the real ones, or a little less. */
const times = { leaseMs: 4_500, renewMs: 3_000, retryMs: 400, heartbeatMs: 4_500 };
/** Processes start slowly where many others run. */
const LONG_MS = 60_000;

let server: LeaseServer;
let child: LeadingChild;
beforeEach(async () => {
  server = await LeaseServer.start();
  child = new LeadingChild({ server: server.url, namespace: "ns", lease: "l", identity: "a", times });
  await child.hear("leading", LONG_MS);
}, LONG_MS);
afterEach(async () => {
  await child[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

describe("the lease of a process whose main loop stands still", { timeout: 2 * LONG_MS }, () => {
  it("is kept, and renewed all the while, if the loop comes back within the heartbeat limit", async () => {
    const from = performance.now();
    child.tell("block 4000");
    await child.hear("leads after block 4000", LONG_MS);
    const tookMs = performance.now() - from;
    expect(tookMs).toBeGreaterThan(3900);
    const during = server.writes.filter(({ atMs }) => atMs > from + 500 && atMs < from + 4000);
    expect(during.length).toBeGreaterThanOrEqual(3);
    expect(server.lease?.spec?.leaseTransitions).toBe(0);
    child.tell("stop");
    expect(await child.ended(LONG_MS)).toMatchObject({ code: 0 });
    expect(server.holder).toBe("");
  });

  it("runs out if the loop stays away; another one leads; the process is killed", async () => {
    const from = performance.now();
    child.tell("block 60000");
    const stop = new AbortController();
    using kube = openKube({ logger: silentLogger, server: server.url, namespace: "ns" });
    let tookOverAt = 0;
    const other = elect({
      ...{ kube, lease: "l", identity: "b", times, signal: stop.signal },
      onLead: async ({ signal }) => {
        tookOverAt = performance.now();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    });
    const { signal, atMs } = await child.ended(LONG_MS);
    expect(signal).toBe("SIGKILL");
    await child.hear("main_loop_hangs", LONG_MS);
    const last = server.writes.findLast(({ holder }) => holder === "a")?.atMs ?? Infinity;
    expect(last - from).toBeLessThan(times.heartbeatMs + 2_000);
    expect(atMs - from).toBeLessThan(times.heartbeatMs + times.renewMs + 3_000 + 8_000);
    await expect.poll(() => tookOverAt, { timeout: 15_000 }).toBeGreaterThan(0);
    expect(tookOverAt - last).toBeGreaterThan(times.leaseMs - 100);
    stop.abort();
    await other;
  });

  it("is gone after a pause of the whole process, which then says so and ends by itself", async () => {
    child.kill("SIGSTOP");
    await sleep(3_600);
    const before = server.writes.length;
    child.tell("block 0");
    child.kill("SIGCONT");
    await child.hear("lost after block 0", LONG_MS);
    expect(await child.ended(LONG_MS)).toMatchObject({ code: 3 });
    expect(server.writes.length).toBe(before);
  });

  it("is lost when somebody else takes it", async () => {
    const lease = server.lease as NonNullable<typeof server.lease>;
    const stolen = { ...lease.spec, holderIdentity: "thief" };
    server.lease = { spec: stolen, metadata: { ...lease.metadata, resourceVersion: "stolen" } };
    expect(await child.ended(LONG_MS)).toMatchObject({ code: 3 });
    expect(server.holder).toBe("thief");
  });
});
