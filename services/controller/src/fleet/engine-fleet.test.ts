// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
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

it("is held up by an engine that hangs only until that one is given up", async () => {
  await using good = await startScriptedEngine();
  const unfenced: string[] = [];
  const engines = [
    { id: "good", url: good.url },
    { id: "hung", url: "http://data.invalid", controlUrl: await startHungEngine() },
  ].map((engine) => ({ ...engine, state: EngineState.FENCED, adapters: [] }));
  const client = {
    listEngines: () => Promise.resolve({ engines }),
    fenceEngine: () => Promise.resolve({}),
    drainEngine: () => Promise.resolve({}),
    unfenceEngine: ({ id }: { id: string }) => Promise.resolve(void unfenced.push(id)),
    forgetPolicy: () => Promise.resolve({}),
  };
  const fleet = new EngineFleet({
    client: oneGateway(client as never),
    logger: silentLogger,
    onQuarantine: () => undefined,
  });
  const policy = create(PolicyRecordSchema, { job: "job", policyVersion: 1n, path: "/tmp" });
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
