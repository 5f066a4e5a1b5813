// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { silentLogger } from "@whetstone/telemetry";
import { startScriptedEngine, waitFor } from "@whetstone/testkit";
import { afterEach, expect, it } from "vitest";
import { oneGateway } from "../../test-support/one-gateway.ts";
import { EngineFleet } from "./engine-fleet.ts";

let hung: Server | undefined;
afterEach(() => hung?.closeAllConnections());

/** An engine that takes calls and never answers. */
async function startHungEngine(): Promise<string> {
  const server = createServer(() => undefined);
  hung = server;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const policy = create(PolicyRecordSchema, { job: "job", policyVersion: 1n, path: "/tmp" });

interface Listed {
  readonly id: string;
  readonly url: string;
  readonly controlUrl?: string;
}

/** @param drainMs  what a switch of each engine takes at least; aborted with it */
function fleetOf(engines: readonly Listed[], drainMs = 0): { fleet: EngineFleet; unfenced: string[] } {
  const unfenced: string[] = [];
  const client = {
    listEngines: () =>
      Promise.resolve({ engines: engines.map((one) => ({ ...one, state: EngineState.FENCED, adapters: [] })) }),
    fenceEngine: () => Promise.resolve({}),
    drainEngine: async (_: object, { signal }: { signal: AbortSignal }) => {
      await delay(drainMs, undefined, { signal });
      return {};
    },
    unfenceEngine: ({ id }: { id: string }) => Promise.resolve(void unfenced.push(id)),
    forgetPolicy: () => Promise.resolve({}),
  };
  const deps = { client: oneGateway(client as never), logger: silentLogger, onQuarantine: () => undefined };
  return { fleet: new EngineFleet({ ...deps, firstWaitMs: 10 }), unfenced };
}

it("is held up by an engine that hangs only until that one is given up", async () => {
  await using good = await startScriptedEngine();
  const hangs = { id: "hung", url: "http://data.invalid", controlUrl: await startHungEngine() };
  const { fleet, unfenced } = fleetOf([{ id: "good", url: good.url }, hangs]);
  let serving: number | undefined;
  const serve = fleet.serve(policy, AbortSignal.timeout(10_000)).then((count) => (serving = count));
  await waitFor(() => unfenced.includes("good"));
  expect(serving).toBeUndefined();
  expect(fleet.wanted).toEqual([policy]);
  fleet.abandon("hung");
  expect(await serve).toBe(1);
  const released = fleet.release("job");
  fleet.abandon("hung");
  await released;
  expect(fleet.wanted).toEqual([]);
});

it("lets an engine in that is late and needs longer for its switch than it is looked at", async () => {
  await using slow = await startScriptedEngine();
  const { fleet } = fleetOf([{ id: "slow", url: slow.url }], 400);
  const looks = setInterval(() => fleet.abandonLate("slow", 5_000), 20);
  try {
    expect(await fleet.serve(policy, AbortSignal.timeout(10_000))).toBe(1);
  } finally {
    clearInterval(looks);
    await fleet.release("job");
  }
});

it("is held up by a late engine that hangs for what it may take, and then no more", async () => {
  await using good = await startScriptedEngine();
  const hangs = { id: "hung", url: "http://data.invalid", controlUrl: await startHungEngine() };
  const { fleet } = fleetOf([{ id: "good", url: good.url }, hangs]);
  const looks = setInterval(() => fleet.abandonLate("hung", 500), 20);
  const served = async (version: bigint): Promise<number> => {
    const startedAt = performance.now();
    await fleet.serve(create(PolicyRecordSchema, { ...policy, policyVersion: version }), AbortSignal.timeout(10_000));
    return performance.now() - startedAt;
  };
  try {
    expect(await served(1n)).toBeGreaterThanOrEqual(500);
    // Each look gives it up at once, and it is tried again all the time.
    const others = [await served(2n), await served(3n)];
    expect(Math.min(...others)).toBeLessThan(500);
  } finally {
    clearInterval(looks);
    const released = fleet.release("job");
    fleet.abandon("hung");
    await released;
  }
});
