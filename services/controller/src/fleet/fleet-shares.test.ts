// SPDX-License-Identifier: Apache-2.0
// Jobs share the engines: each engine serves one of them, and moves when jobs come and go.
import { create } from "@bufbuild/protobuf";
import { type PolicyRecord, PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState, type ServedPolicy } from "@whetstone/proto/inference/v1/inference";
import { silentLogger } from "@whetstone/telemetry";
import { type ScriptedEngine, startScriptedEngine, waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { oneGateway } from "../../test-support/one-gateway.ts";
import { EngineFleet } from "./engine-fleet.ts";

interface Listed {
  readonly id: string;
  readonly url: string;
  state: EngineState;
  policy?: ServedPolicy | undefined;
}

let stack: AsyncDisposableStack;
let engines: ScriptedEngine[];
let listed: Listed[];
let without: (readonly string[])[];
let fleet: EngineFleet;

const policyOf = (job: string, version = 0n): PolicyRecord =>
  create(PolicyRecordSchema, { job, policyVersion: version, path: `/${job}/v${version}` });
const served = (): string =>
  listed.map(({ state, policy }) => (state === EngineState.SERVING ? policy?.policy : "-")).join("");
const serve = (job: string, version = 0n, weight = 1): Promise<number> =>
  fleet.serve(policyOf(job, version), AbortSignal.timeout(20_000), { weight });

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  engines = await Promise.all(Array.from({ length: 4 }, () => startScriptedEngine()));
  for (const engine of engines) stack.use(engine);
  without = [];
  listed = engines.map(({ url }, index) => ({ id: `e${index}`, url, state: EngineState.FENCED }));
  const one = (id: string): Listed => listed.find((engine) => engine.id === id) as Listed;
  const client = {
    listEngines: () => Promise.resolve({ engines: listed.map((engine) => ({ ...engine, adapters: [] })) }),
    fenceEngine: ({ id }: { id: string }) => Promise.resolve(void (one(id).state = EngineState.FENCED)),
    drainEngine: () => Promise.resolve({}),
    unfenceEngine: ({ id, policy }: { id: string; policy: ServedPolicy }) =>
      Promise.resolve(void Object.assign(one(id), { state: EngineState.SERVING, policy })),
    forgetPolicy: ({ policy }: { policy: string }) => {
      for (const engine of listed)
        if (engine.policy?.policy === policy) Object.assign(engine, { state: EngineState.FENCED, policy: undefined });
      return Promise.resolve({});
    },
  };
  fleet = new EngineFleet({
    ...{ client: oneGateway(client as never), logger: silentLogger, onQuarantine: () => undefined, firstWaitMs: 10 },
    onWithout: (jobs) => without.push(jobs),
  });
});

afterEach(async () => {
  for (const { job } of fleet.wanted) await fleet.release(job);
  await stack.disposeAsync();
});

it("gives a job that comes its share, and what it leaves to those that stay", async () => {
  expect(await serve("a")).toBe(4);
  expect(await serve("b", 3n)).toBeGreaterThan(0);
  await waitFor(() => served() === "aabb");
  expect(fleet.wanted.map(({ job }) => job)).toEqual(["a", "b"]);
  expect(["e0", "e3"].map((id) => fleet.wantedOf(id)?.job)).toEqual(["a", "b"]);
  await fleet.release("a");
  await waitFor(() => served() === "bbbb");
  expect(engines[0]?.state.label).toBe("b:3");
});

it("shares by weight, and a new version goes to its own job's engines only", async () => {
  await serve("a");
  await serve("b", 0n, 3);
  await waitFor(() => served() === "abbb");
  expect(await serve("b", 1n, 3)).toBe(3);
  expect(engines.map(({ state }) => state.label)).toEqual(["a:0", "b:1", "b:1", "b:1"]);
});

it("says which jobs have no engine, and serves them when one is free", async () => {
  listed.splice(1);
  await serve("a");
  const waits = serve("b");
  await waitFor(() => without.length > 0);
  expect(without).toEqual([["b"]]);
  await fleet.release("a");
  expect(await waits).toBe(1);
  expect(without).toEqual([["b"], []]);
});

it("a job whose weights no engine takes ends, and never takes the last engine of another", async () => {
  await serve("a");
  for (const engine of engines) engine.inject("reload", { kind: "status", status: 500 }, 1000);
  await expect(serve("b")).rejects.toThrow(/every engine refuses the weights of version 0/);
  expect(served()).toMatch(/a/);
}, 60_000);
