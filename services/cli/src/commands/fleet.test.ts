// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { FleetViewService, ReplicaState } from "@whetstone/proto/inference/v1/inference";
import { implement, type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { type FakeTerminal, fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

let terminal: FakeTerminal;
let server: RpcServer;
let scaled: string[];

const FLEET = {
  name: "default",
  wanted: 2,
  replicas: [
    { name: "default-0", state: ReplicaState.SERVING, policy: "fl", policyVersion: 7n, inFlight: 12 },
    { name: "default-1", state: ReplicaState.DOWN, reason: "ImagePullBackOff" },
  ],
  conditions: [
    { type: "Ready", status: "False", reason: "NotEnoughReady", message: "1 of 2 replicas are ready" },
    { type: "Degraded", status: "False", reason: "Healthy", message: "" },
  ],
};

beforeEach(async () => {
  terminal = fakeTerminal();
  scaled = [];
  const service = implement(FleetViewService, {
    listFleets: () => ({ fleets: [FLEET], policies: ["fl", "other"].map((policy) => ({ policy, policyVersion: 7n })) }),
    scaleFleet: ({ name, replicas }) => {
      if (name !== "default") throw new WhetstoneError("NOT_FOUND", `there is no fleet "${name}"; known: default`);
      scaled.push(`${name}=${replicas}`);
      return { fleet: { ...FLEET, wanted: replicas } };
    },
  });
  server = await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
});
afterEach(() => server[Symbol.asyncDispose]());

function whet(...argv: string[]): Promise<number> {
  const { signal } = new AbortController();
  const environment = { WHETSTONE_ENDPOINT: server.address };
  return runCommand(["fleet", ...argv], { terminal, environment, signal, force: signal });
}

describe("whet fleet", () => {
  it("shows each engine, what it serves, and what is wrong", async () => {
    expect(await whet("status")).toBe(0);
    const text = terminal.out.join("\n");
    expect(text).toMatch(/wanted: fl:7, other:7\ndefault: 1 serving of 2 wanted/);
    expect(text).toMatch(/default-0 +Serving +fl:7 +12\s+default-1 +Down +– +0 +ImagePullBackOff/);
    expect(text).toContain("Ready=False NotEnoughReady: 1 of 2 replicas are ready");
    expect(text).not.toContain("Degraded");
    expect(await whet("status", "--json")).toBe(0);
    expect(terminal.documents.at(-1)).toMatchObject({
      policies: [{ policy: "fl" }, {}],
      fleets: [{ name: "default", wanted: 2 }],
    });
  });

  it("scales one", async () => {
    expect(await whet("scale", "default", "0")).toBe(0);
    expect(terminal.out.at(-1)).toContain("default: 0 wanted");
    expect(await whet("scale", "other", "1")).not.toBe(0);
    expect(terminal.err.join("\n")).toContain("known: default");
    expect(await whet("scale", "default", "1.5")).toBe(2);
    expect(scaled).toEqual(["default=0"]);
  });
});
