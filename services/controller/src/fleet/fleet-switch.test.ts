// SPDX-License-Identifier: Apache-2.0
// The order of a switch (ARCHITECTURE.md, step 10) against an engine that answers as vLLM does, and fails when told to.
import { create } from "@bufbuild/protobuf";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { silentLogger } from "@whetstone/telemetry";
import { type ScriptedEngine, startScriptedEngine } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { oneGateway } from "../../test-support/one-gateway.ts";
import { EngineFleet } from "./engine-fleet.ts";

const policy = create(PolicyRecordSchema, { job: "job", policyVersion: 1n, path: "/w" });
const LOAD = "collective_rpc reload_weights /w";
/** Pauses, and resumptions after an attempt that failed, are not what these tests look at. */
const ofWeights = (engine: ScriptedEngine) => engine.controlCalls.filter((call) => !/^(pause|resume)/.test(call));

/** Serves the policy with one engine. @returns how many canaries the engine had answered whenever it was unfenced */
async function serve(engine: ScriptedEngine): Promise<number[]> {
  const canariesAtUnfence: number[] = [];
  const client = {
    listEngines: () =>
      Promise.resolve({ engines: [{ id: "e", url: engine.url, state: EngineState.FENCED, adapters: [] }] }),
    fenceEngine: () => Promise.resolve({}),
    drainEngine: () => Promise.resolve({}),
    unfenceEngine: () => Promise.resolve(void canariesAtUnfence.push(engine.requests.length)),
    forgetPolicy: () => Promise.resolve({}),
  };
  const fleet = new EngineFleet({
    client: oneGateway(client as never),
    logger: silentLogger,
    onQuarantine: () => undefined,
  });
  await fleet.serve(policy, AbortSignal.timeout(10_000));
  await fleet.release("job");
  return canariesAtUnfence.slice(0, 1);
}

it("labels the weights only after a complete load (I7)", async () => {
  await using engine = await startScriptedEngine();
  engine.inject("reload", { kind: "status", status: 500 });
  await serve(engine);
  expect(ofWeights(engine).slice(0, 3)).toEqual([LOAD, LOAD, "label job:1"]);
});

it("unfences no engine before a token sampled from the loaded weights was seen (I7)", async () => {
  await using engine = await startScriptedEngine();
  engine.inject("generate", { kind: "status", status: 500 });
  expect(await serve(engine)).toEqual([2]);
});

it("does not unfence an engine whose first token carries another label (I5)", async () => {
  await using engine = await startScriptedEngine();
  engine.inject("generate", { kind: "wrong-label", label: "other:9" });
  expect(await serve(engine)).toEqual([2]);
});
