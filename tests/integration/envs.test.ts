// SPDX-License-Identifier: Apache-2.0
// `whet envs` through the controller's PoolService: what it says is what the env-runner that plays says.
import { DEFAULT_POOL } from "@whetstone/messaging";
import { type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { type FakeTerminal, fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { type FindHost, fixedHost } from "../../services/controller/src/pools/environment-hosts.ts";
import { fixedPools } from "../../services/controller/src/pools/pool-directory.ts";
import { poolService } from "../../services/controller/src/pools/pool-service.ts";
import { type EnvRunnerApp, startApp } from "../../services/env-runner/src/app.ts";
import { ConfigSchema } from "../../services/env-runner/src/config.ts";

const POOLS = [DEFAULT_POOL, "second"];
let runner: EnvRunnerApp;
let server: RpcServer;
let terminal: FakeTerminal;
let isScaledToZero = false;
beforeEach(async () => {
  runner = await startApp(ConfigSchema.parse({ grpcPort: 0 }), { logger: silentLogger });
  const host = fixedHost(new Map(POOLS.map((pool) => [pool, runner.address])), undefined);
  const findHost: FindHost = (pool) => (isScaledToZero ? Promise.resolve({}) : host(pool));
  const services = [poolService(fixedPools(POOLS, findHost), findHost)];
  server = await startServer({ host: "127.0.0.1", port: 0, services, logger: silentLogger });
  terminal = fakeTerminal();
});
afterEach(async () => {
  isScaledToZero = false;
  await server[Symbol.asyncDispose]();
  await runner[Symbol.asyncDispose]();
});

function whet(...argv: string[]): Promise<number> {
  const { signal } = new AbortController();
  const environment = { WHETSTONE_ENDPOINT: server.address };
  return runCommand(["envs", ...argv], { terminal, environment, signal, force: signal });
}

interface Described {
  readonly args: { readonly properties: Record<string, { readonly description?: string }> };
}

describe("whet envs", () => {
  it("lists what there is, and describes arguments with their ranges and defaults", async () => {
    expect(await whet("ls")).toBe(0);
    expect(terminal.out.join("\n")).toMatch(/^frozenlake +default +\S.*\n(.*\n)*math +second +\S/m);
    expect(await whet("ls", "--pool", "second", "--json")).toBe(0);
    const { environments } = terminal.documents.at(-1) as { environments: { pool: string }[] };
    expect(new Set(environments.map(({ pool }) => pool))).toEqual(new Set(["second"]));
    expect(await whet("describe", "frozenlake")).toBe(0);
    expect(terminal.out.join("\n")).toMatch(/^size +whole number +3 to 10 +8 +cells a side$/m);
  });

  it("says in JSON of every kind what a program needs, and of every argument what it means", async () => {
    expect(await whet("ls", "--json")).toBe(0);
    const { environments } = terminal.documents.at(-1) as { environments: { kind: string }[] };
    expect(environments).toContainEqual(
      expect.objectContaining({ kind: "tool", capabilities: expect.objectContaining({ seedable: true }) as object }),
    );
    for (const { kind } of environments) {
      expect(await whet("describe", kind, "--json")).toBe(0);
      const { args } = terminal.documents.at(-1) as Described;
      const bare = Object.entries(args.properties).filter(([, { description = "" }]) => description === "");
      expect([kind, bare.map(([name]) => name)]).toEqual([kind, []]);
    }
  });

  it("names what is known where a kind or a pool is not, and where nobody is there to ask", async () => {
    expect(await whet("describe", "chess")).toBe(2);
    expect(terminal.err.at(-1)).toMatch(/unknown environment "chess"; known: .*frozenlake, .*math/);
    expect(await whet("ls", "--pool", "none")).toBe(2);
    expect(terminal.err.at(-1)).toMatch(/unknown pool "none"; known: default, second/);
    isScaledToZero = true;
    expect(await whet("ls")).toBe(0);
    expect(terminal.out.at(-1)).toMatch(/^pool second: .*has no env-runner to ask/);
    expect(await whet("ls", "--pool", DEFAULT_POOL)).toBe(1);
    expect(terminal.err.at(-1)).toMatch(/"default" has no env-runner to ask: `whet pools get default`/);
  });
});
