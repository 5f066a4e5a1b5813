// SPDX-License-Identifier: Apache-2.0
// Engines that refuse weights, are away, or hang: who waits how long, and who gives up.
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { type PolicyRecord, PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { silentLogger } from "@whetstone/telemetry";
import { type ScriptedEngine, startScriptedEngine, waitFor } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { EngineAttempts } from "./engine-attempts.ts";
import { oneGateway } from "../../test-support/one-gateway.ts";
import { EngineFleet } from "./engine-fleet.ts";

const policy = create(PolicyRecordSchema, { job: "job", policyVersion: 1n, path: "/w" });

interface Listed {
  readonly id: string;
  readonly url: string;
}

/** A fleet over a gateway that only lists engines; `forgetPolicy` may hang. */
function fleetOf(engines: readonly Listed[], forgetPolicy: () => Promise<object> = () => Promise.resolve({})) {
  const done = (): Promise<object> => Promise.resolve({});
  const client = {
    listEngines: () =>
      Promise.resolve({ engines: engines.map((engine) => ({ ...engine, state: EngineState.FENCED, adapters: [] })) }),
    fenceEngine: done,
    drainEngine: done,
    unfenceEngine: done,
    forgetPolicy,
  };
  return new EngineFleet({
    client: oneGateway(client as never),
    logger: silentLogger,
    onQuarantine: () => undefined,
    firstWaitMs: 10,
  });
}

/** Serves for a while. @returns the number of engines, the error, or "waiting" */
async function outcome(fleet: EngineFleet, forMs: number, of: PolicyRecord = policy): Promise<unknown> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), forMs);
  const result = await fleet.serve(of, stop.signal).catch((error: unknown) => error);
  clearTimeout(timer);
  await fleet.release("job");
  return stop.signal.aborted ? "waiting" : result;
}

const loads = (engine: ScriptedEngine): number =>
  engine.controlCalls.filter((call) => call.startsWith("collective_rpc")).length;

describe("weights that every engine refuses", () => {
  it("are given up after some attempts, with the engines' words", async () => {
    await using engine = await startScriptedEngine();
    engine.inject("reload", { kind: "status", status: 500 }, 1000);
    const error = await outcome(fleetOf([{ id: "e", url: engine.url }]), 60_000);
    expect(error).toMatchObject({ code: "ENGINE_FAILED", retry: "never" });
    expect((error as Error).message).toMatch(/every engine refuses the weights of version 1 \(\/w\): e: .*500/);
    expect(loads(engine)).toBe(6);
  }, 70_000);

  it("are written again once, and served if that was all", async () => {
    await using engine = await startScriptedEngine();
    engine.inject("reload", { kind: "status", status: 500 }, 3);
    const fleet = fleetOf([{ id: "e", url: engine.url }]);
    const repaired = Promise.withResolvers<void>();
    let repairs = 0;
    const repair = (): Promise<void> => {
      repairs += 1;
      return repaired.promise;
    };
    const serving = fleet.serve(policy, AbortSignal.timeout(60_000), { repair });
    await waitFor(() => repairs === 1);
    repaired.resolve();
    expect(await serving).toBe(1);
    expect(repairs).toBe(1);
    await fleet.release("job");
  }, 70_000);

  it.each([
    ["wait while they are being written again", () => new Promise<void>(() => undefined), "waiting", 1],
    ["are given up if that does not help", () => Promise.resolve(), "ENGINE_FAILED", 1],
    ["are given up if they cannot be written again", () => Promise.reject(new Error("gone")), "ENGINE_FAILED", 1],
  ] as const)(
    "%s",
    async (_when, run, expected, wanted) => {
      await using engine = await startScriptedEngine();
      engine.inject("reload", { kind: "status", status: 500 }, 1000);
      const fleet = fleetOf([{ id: "e", url: engine.url }]);
      let repairs = 0;
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), expected === "waiting" ? 4_000 : 60_000);
      const repair = (): Promise<void> => {
        repairs += 1;
        return run();
      };
      const result = await fleet.serve(policy, stop.signal, { repair }).catch((error: unknown) => error);
      clearTimeout(timer);
      await fleet.release("job");
      expect(stop.signal.aborted ? "waiting" : (result as WhetstoneError).code).toBe(expected);
      expect(repairs).toBe(wanted);
      if (expected === "waiting") expect(loads(engine)).toBeGreaterThanOrEqual(6);
    },
    70_000,
  );

  it("are those, too, whose first token has no log-probability", async () => {
    const script = () => ({ tokenIds: [1], logprobs: [-9999] });
    await using engine = await startScriptedEngine({ script });
    const error = await outcome(fleetOf([{ id: "e", url: engine.url }]), 60_000);
    expect((error as Error).message).toMatch(/canary has no finite log-probability/);
  }, 70_000);
});

describe("an engine that is away, starting or full", () => {
  it("is waited for", async () => {
    await using engine = await startScriptedEngine();
    engine.inject("reload", { kind: "status", status: 503 }, 1000);
    expect(await outcome(fleetOf([{ id: "e", url: engine.url }]), 3_000)).toBe("waiting");
    expect(loads(engine)).toBeGreaterThan(1);
  });

  it("keeps a job alive though the other one refuses", async () => {
    const attempts = new EngineAttempts();
    const engines = [{ id: "a" }, { id: "b" }] as never;
    for (let i = 0; i < 20; i++) attempts.failed("a", "p", refusal("no"), 0);
    expect(attempts.verdict(engines, "p")).toBeUndefined();
    for (let i = 0; i < 6; i++) attempts.failed("b", "p", refusal("nor I"), 0);
    expect(attempts.verdict(engines, "p")).toBe("a: no; b: nor I");
    attempts.failed("b", "p", new Error("connect ECONNREFUSED"), 0);
    expect(attempts.verdict(engines, "p"), "it may come back").toBeUndefined();
    expect(attempts.verdict(engines, "another policy")).toBeUndefined();
    expect(attempts.verdict([] as never, "p")).toBeUndefined();
  });

  it("is no refusal where the machine has no room", () => {
    const attempts = new EngineAttempts();
    for (let i = 0; i < 20; i++) attempts.failed("a", "p", refusal("500 No space left on device"), 0);
    expect(attempts.verdict([{ id: "a" }] as never, "p")).toBeUndefined();
  });

  it("is tried less and less often, and at once with other weights", () => {
    const attempts = new EngineAttempts();
    const waits = Array.from({ length: 8 }, () => {
      attempts.failed("a", "p", refusal("no"), 0);
      let wait = 0;
      while (!attempts.isDue("a", "p", wait)) wait += 100;
      return wait;
    });
    expect(waits).toEqual([300, 600, 1200, 2400, 4800, 9600, 10_000, 10_000]);
    expect(attempts.isDue("a", "q", 0)).toBe(true);
  });
});

function refusal(message: string): Error {
  return new WhetstoneError("ENGINE_FAILED", message, { retry: "never" });
}

describe("a stop", () => {
  it("is not held up by an engine that takes calls and never answers, nor by a gateway that forgets nothing", async () => {
    const forget = (_: object, { deadlineMs }: { deadlineMs: number }): Promise<object> =>
      new Promise((_done, fail) => setTimeout(() => fail(new Error("no answer")), deadlineMs));
    await using good = await startScriptedEngine();
    const fleet = fleetOf([{ id: "good", url: good.url }], forget as never);
    await fleet.serve(policy, AbortSignal.timeout(10_000));
    const next = create(PolicyRecordSchema, { ...policy, policyVersion: 2n, path: "/w2" });
    const stop = new AbortController();
    good.inject("reload", { kind: "hang" }, 1000);
    const serving = fleet.serve(next, stop.signal).catch((error: unknown) => error);
    await waitFor(() => loads(good) > 1);
    const startedAt = performance.now();
    stop.abort(new WhetstoneError("CANCELLED", "enough"));
    expect(await serving).toMatchObject({ code: "CANCELLED" });
    await fleet.release("job");
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});
