// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { PoolService } from "@whetstone/proto/pools/v1/pools";
import { implement, type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { type FakeTerminal, fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

let terminal: FakeTerminal;
let server: RpcServer;
let scaled: string[];

const POOL = { name: "web", replicas: 4, ready: 3, draining: 1, slots: 24, busySlots: 20 };

beforeEach(async () => {
  terminal = fakeTerminal();
  scaled = [];
  const service = implement(PoolService, {
    listPools: () => ({ pools: [{ name: "default", fixed: true, replicas: 1, ready: 1, slots: 8 }, POOL] }),
    getPool: ({ name }) => {
      if (name !== "web") throw new WhetstoneError("NOT_FOUND", `there is no pool "${name}"; known: web`);
      return { pool: { ...POOL, reason: "NotEnoughReady", message: "3 of 4 env-runners are ready" } };
    },
    scalePool: ({ name, replicas }) => {
      scaled.push(`${name}=${replicas}`);
      return { pool: { ...POOL, replicas } };
    },
  });
  server = await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
});
afterEach(() => server[Symbol.asyncDispose]());

function whet(...argv: string[]): Promise<number> {
  const { signal } = new AbortController();
  const environment = { WHETSTONE_ENDPOINT: server.address };
  return runCommand(["pools", ...argv], { terminal, environment, signal, force: signal });
}

describe("whet pools", () => {
  it("lists them, and shows one with what is wrong", async () => {
    expect(await whet("ls")).toBe(0);
    expect(terminal.out.join("\n")).toMatch(/default +1 +1 +0 +0\/8 +fixed\s+web +4 +3 +1 +20\/24 +by hand/);
    expect(await whet("get", "web")).toBe(0);
    expect(terminal.out.at(-1)).toBe("3 of 4 env-runners are ready");
    expect(await whet("get", "x")).not.toBe(0);
    expect(terminal.err.join("\n")).toContain("known: web");
  });

  it("scales one, and speaks JSON", async () => {
    expect(await whet("scale", "web", "0", "--json")).toBe(0);
    expect(terminal.documents.at(-1)).toMatchObject({ name: "web", ready: 3 });
    expect(await whet("scale", "web", "-1")).not.toBe(0);
    expect(await whet("scale", "web", "1.5")).toBe(2);
    expect(scaled).toEqual(["web=0"]);
  });
});
