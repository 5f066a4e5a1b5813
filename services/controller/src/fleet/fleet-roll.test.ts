// SPDX-License-Identifier: Apache-2.0
// Weights are read before an engine is fenced, and half of the engines go on sampling while the others switch.
import { create } from "@bufbuild/protobuf";
import { sleep } from "@whetstone/core";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { silentLogger } from "@whetstone/telemetry";
import { type ScriptedEngine, startScriptedEngine, waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { oneGateway } from "../../test-support/one-gateway.ts";
import { EngineFleet } from "./engine-fleet.ts";
import type { SwitchTimes } from "./engine-switch.ts";

const policy = create(PolicyRecordSchema, { job: "job", policyVersion: 1n, path: "/w" });

let stack: AsyncDisposableStack;
/** What happened to engines, in order. */
let seen: string[];
let fenced: Set<string>;
let mostFenced: number;
let times: SwitchTimes[];
let behind: string[];

beforeEach(() => {
  stack = new AsyncDisposableStack();
  [seen, fenced, mostFenced, times, behind] = [[], new Set(), 0, [], []];
});
afterEach(() => stack.disposeAsync());

async function start(stages: readonly boolean[]): Promise<ScriptedEngine[]> {
  const engines = await Promise.all(stages.map((each) => startScriptedEngine({ stages: each })));
  for (const engine of engines) stack.use(engine);
  return engines;
}

/** @param slow  engines that take their time to drain */
function fleetOf(engines: readonly ScriptedEngine[], slow: Readonly<Record<string, number>> = {}): EngineFleet {
  const listed = engines.map(({ url }, index) => ({ id: `e${index}`, url, state: EngineState.SERVING }));
  const client = {
    listEngines: () => Promise.resolve({ engines: listed.map((engine) => ({ ...engine, adapters: [] })) }),
    fenceEngine: ({ id }: { id: string }) => {
      const staged = engines[Number(id.slice(1))]?.controlCalls.some((call) => call.startsWith("stage"));
      seen.push(`fence ${id}${staged ? ", staged" : ""}`);
      mostFenced = Math.max(mostFenced, fenced.add(id).size);
      return Promise.resolve({});
    },
    drainEngine: async ({ id }: { id: string }) => {
      await sleep(slow[id] ?? 20);
      return {};
    },
    unfenceEngine: ({ id }: { id: string }) => Promise.resolve(void (seen.push(`unfence ${id}`), fenced.delete(id))),
    forgetPolicy: () => Promise.resolve({}),
  };
  return new EngineFleet({
    ...{ client: oneGateway(client as never), logger: silentLogger, onQuarantine: () => undefined, firstWaitMs: 10 },
    onSwitched: (each) => times.push(each),
    onBehind: (each) => behind.push(each),
  });
}

async function serve(fleet: EngineFleet, wanted = policy): Promise<number> {
  try {
    return await fleet.serve(wanted, AbortSignal.timeout(20_000));
  } finally {
    await fleet.release("job");
  }
}

it("reads the weights first, then switches half of the engines at a time", async () => {
  expect(await serve(fleetOf(await start([true, true, true, true])))).toBe(4);
  expect(seen.filter((each) => each.startsWith("fence")).every((each) => each.endsWith("staged"))).toBe(true);
  expect([new Set(seen).size, mostFenced]).toEqual([8, 2]);
  for (const { stage = -1, fenced: seconds } of times) expect([stage > 0, seconds > 0.01]).toEqual([true, true]);
});

it("switches an only engine, and one of two at a time", async () => {
  expect(await serve(fleetOf(await start([true])))).toBe(1);
  expect(mostFenced).toBe(1);
  expect(await serve(fleetOf(await start([true, true])))).toBe(2);
  expect(mostFenced).toBe(1);
});

it("switches engines that read within their pause all at once", async () => {
  const engines = await start([false, false, false]);
  expect(await serve(fleetOf(engines))).toBe(3);
  expect([mostFenced, seen.some((each) => each.endsWith("staged"))]).toEqual([3, false]);
  expect(times.map(({ stage }) => stage)).toEqual([undefined, undefined, undefined]);
  expect(engines[0]?.controlCalls).toContain("collective_rpc reload_weights /w");
});

it("fences no engine for weights that it cannot read, and tries again", async () => {
  const [engine] = await start([true]);
  engine?.inject("stage", { kind: "status", status: 500 }, 2);
  expect(await serve(fleetOf([engine as ScriptedEngine]))).toBe(1);
  expect(engine?.controlCalls.slice(0, 3)).toEqual(["stage /w", "stage /w", "stage /w"]);
  expect(seen.slice(0, 2)).toEqual(["fence e0, staged", "unfence e0"]);
});

const streamed = create(PolicyRecordSchema, {
  ...{ job: "job", policyVersion: 3n, path: "/w/v3", manifestDigest: "beef", url: "http://trainer/weights/uid" },
});

it("tells engines where they fetch a version that is streamed, and to swap it by its name", async () => {
  const [engine] = await start([true]);
  expect(await serve(fleetOf([engine as ScriptedEngine]), streamed)).toBe(1);
  expect(engine?.controlCalls[0]).toBe("stage /w/v3 http://trainer/weights/uid/v3 beef");
  expect(engine?.controlCalls).toContain("collective_rpc reload_weights /w/v3");
});

it("lets engines read version 0 by themselves", async () => {
  const [engine] = await start([true]);
  const first = create(PolicyRecordSchema, { job: "job", path: "/models/tiny", url: streamed.url });
  expect(await serve(fleetOf([engine as ScriptedEngine]), first)).toBe(1);
  expect(engine?.controlCalls[0]).toBe("stage /models/tiny");
});

it("refuses to stream to engines that cannot fetch, by the setting's path", async () => {
  const engines = await start([false]);
  await expect(serve(fleetOf(engines), streamed)).rejects.toThrow(
    /every engine refuses .* cannot fetch weights: weights\.transport\.stream needs engines of profile pytorch/,
  );
  expect(engines[0]?.controlCalls.some((call) => call.startsWith("collective_rpc"))).toBe(false);
});

it("says what an engine says that does not take the weights, until it does; a full disk is waited out", async () => {
  const [full, well] = await start([true, true]);
  full?.inject("stage", { kind: "status", status: 500, words: "No space left on device" }, 3);
  const fleet = fleetOf([full as ScriptedEngine, well as ScriptedEngine]);
  try {
    await fleet.serve(policy, AbortSignal.timeout(20_000));
    await waitFor(() => behind.length === 2);
  } finally {
    await fleet.release("job");
  }
  expect(behind[0]).toMatch(/^e0: .*No space left on device/);
  expect(behind[1]).toBe("");
});
