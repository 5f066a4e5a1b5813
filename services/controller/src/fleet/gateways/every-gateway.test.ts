// SPDX-License-Identifier: Apache-2.0
// What holds over several replicas of the gateway: fences at each of them, replicas that are away, new, or behind.
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { silentLogger } from "@whetstone/telemetry";
import { startScriptedEngine } from "@whetstone/testkit";
import { beforeEach, expect, it } from "vitest";
import { EngineFleet } from "../engine-fleet.ts";
import { everyGateway, type Gateways } from "./every-gateway.ts";
import { GatewayReplicas } from "./gateway-replicas.ts";

interface FakeEngine {
  id: string;
  url: string;
  state: EngineState;
  inFlight?: number;
  policy?: object;
}

/** A replica as the controller sees it. */
class FakeGateway {
  engines: FakeEngine[] = [];
  readonly seen: string[] = [];
  error: Error | undefined;

  readonly client = {
    listEngines: () =>
      this.#answer({ engines: this.engines.map((engine) => ({ ...engine, adapters: [] })), waitingCalls: { job: 2 } }),
    registerEngine: ({ id = "", url = "" }) => {
      if (!this.engines.some((engine) => engine.id === id)) this.engines.push({ id, url, state: EngineState.FENCED });
      return this.#note(`register ${id}`);
    },
    removeEngine: ({ id = "" }) => this.#note(`remove ${id}`, { revoked: 3 }),
    fenceEngine: ({ id = "" }) => this.#note(`fence ${id}`),
    drainEngine: ({ id = "" }) => this.#note(`drain ${id}`),
    unfenceEngine: ({ id = "", policy = {} }) => {
      const engine = this.engines.find((each) => each.id === id);
      if (engine !== undefined) Object.assign(engine, { state: EngineState.SERVING, policy });
      return this.#note(`unfence ${id}`);
    },
    forgetPolicy: () => this.#note("forget", { sessions: 4 }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };

  #note(what: string, answer: object = {}): Promise<object> {
    this.seen.push(what);
    return this.#answer(answer);
  }

  #answer(answer: object): Promise<object> {
    return this.error === undefined ? Promise.resolve(answer) : Promise.reject(this.error);
  }
}

let a: FakeGateway;
let b: FakeGateway;
let gateways: Gateways;

beforeEach(() => {
  [a, b] = [new FakeGateway(), new FakeGateway()];
  const connect = (address: string) => (address === "10.0.0.1:9080" ? a : b).client as never;
  const everyHost = () => Promise.resolve(["10.0.0.1", "10.0.0.2"]);
  gateways = everyGateway(new GatewayReplicas({ addresses: ["gateways:9080"], connect, everyHost }), silentLogger);
});

const away = new WhetstoneError("UNAVAILABLE", "nobody is there");
const served = (version: bigint) => ({
  policy: "job",
  policyVersion: version,
  label: `job:${version}`,
  modelPath: "/w",
});
const serving = (url = "http://e"): FakeEngine => ({ id: "e", url, state: EngineState.SERVING, policy: served(1n) });

it("sums up what replicas say, and counts an engine as serving that serves for one of them", async () => {
  a.engines = [{ ...serving(), inFlight: 2 }];
  b.engines = [{ id: "e", url: "http://e", state: EngineState.FENCED, inFlight: 1 }];
  const { engines, waitingCalls } = await gateways.listEngines({});
  expect(engines).toMatchObject([{ id: "e", state: EngineState.SERVING, inFlight: 3, policy: { label: "job:1" } }]);
  expect(engines[0]?.views).toHaveLength(2);
  expect(waitingCalls).toEqual({ job: 4 });
  expect(await gateways.removeEngine({ id: "e" })).toMatchObject({ revoked: 6 });
});

it("fences and drains at each of them, and leaves out one that is away", async () => {
  await gateways.fenceEngine({ id: "e" });
  b.error = away;
  await gateways.drainEngine({ id: "e" });
  expect([a.seen, b.seen]).toEqual([
    ["fence e", "drain e"],
    ["fence e", "drain e"],
  ]);
  a.error = away;
  await expect(gateways.fenceEngine({ id: "e" })).rejects.toThrow("nobody is there");
});

it.each(["FAILED_PRECONDITION", "STALE_EPOCH"] as const)(
  "goes no further when one of them refuses: %s",
  async (code) => {
    b.error = new WhetstoneError(code, "it serves");
    await expect(gateways.drainEngine({ id: "e" })).rejects.toMatchObject({ code });
  },
);

it("tells one that has just begun of the engines, but of none that was taken away", async () => {
  a.engines = [serving()];
  await gateways.listEngines({});
  expect(b.seen).toEqual(["register e"]);
  b.engines = [];
  await gateways.removeEngine({ id: "e" });
  await gateways.listEngines({});
  expect(b.seen).toEqual(["register e", "remove e"]);
});

it("admits an engine at a replica that is behind, without pausing it", async () => {
  await using engine = await startScriptedEngine();
  const fleet = new EngineFleet({ client: gateways, logger: silentLogger, onQuarantine: () => undefined });
  const policy = create(PolicyRecordSchema, { job: "job", policyVersion: 1n, path: "/w" });
  a.engines = [{ id: "e", url: engine.url, state: EngineState.FENCED }];
  await fleet.serve(policy, AbortSignal.timeout(10_000));
  const before = engine.controlCalls.length;
  // Back from a pause of its own, in which it missed a switch.
  b.engines = [{ ...serving(engine.url), policy: served(0n) }];
  [a.seen.length, b.seen.length] = [0, 0];
  await expect.poll(() => b.seen, { timeout: 5_000 }).toEqual(["fence e", "drain e", "unfence e"]);
  expect(a.seen).toEqual([]);
  expect(engine.controlCalls.slice(before)).toEqual([]);
  await fleet.release("job");
});
