// SPDX-License-Identifier: Apache-2.0
// Each attack of a user's module is held by its sandbox, and gets through when the guard is away.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { hostname, networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { type Guard, ProcessBackend } from "@whetstone/sandbox";
import { silentLogger } from "@whetstone/telemetry";
import { canHaveSandboxes, startVictim } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MODULE_ATTACKS, type ModuleAttack, PRELUDE, type Targets } from "../test-support/module-attacks.ts";
import { HostProcess } from "./host-process.ts";
import { openReach } from "./reach.ts";

const SANDBOX_UID = 65533;
const ACT = `
export async function act(script) {
  try {
    return (await eval("(async () => {" + script + "})()")) === true ? "ESCAPED" : "held";
  } catch (error) { return "held: " + (error.cause ?? error).message; }
}`;

const folder = mkdtempSync(join(tmpdir(), "whetstone-module-"));
const host = {
  key: join(folder, "tls.key"),
  certificate: join(folder, "tls.crt"),
  writable: join(folder, "writable"),
  socket: join(folder, "service.sock"),
  abstract: `whetstone-module-${process.pid}`,
  address:
    Object.values(networkInterfaces())
      .flat()
      .find((entry) => entry?.family === "IPv4" && !entry.internal)?.address ?? "127.0.0.1",
  port: 0,
  hostname: hostname(),
};
const closing = new AsyncDisposableStack();
const hosts = new Map<string, HostProcess>();

async function listen(where: string | { port: number; host: string }, answer = "host"): Promise<Server> {
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined).once("data", () => socket.end(answer));
  });
  await new Promise<void>((resolve) => void server.listen(where, resolve));
  closing.defer(() => void server.close());
  return server;
}

/** One process for all attacks with the same guards away. */
async function hostWithout(guards: readonly Guard[]): Promise<HostProcess> {
  const key = guards.join();
  const known = hosts.get(key);
  if (known !== undefined) return known;
  const backend = closing.use(await ProcessBackend.start({ without: new Set(guards) }));
  const made = open(backend);
  hosts.set(key, made);
  return made;
}

function open(backend: ProcessBackend, sockets?: string): HostProcess {
  const made = new HostProcess({
    entry: new URL("../test-support/odd-child.ts", import.meta.url),
    name: "attacker",
    data: { code: new TextEncoder().encode(ACT) },
    limits: { memoryMiB: 1000, hangMs: 20_000, startMs: 60_000 },
    isolation: async () => ({ backend, sockets }),
    logger: silentLogger,
  });
  closing.defer(() => made.close());
  return made;
}

async function outcome(attack: ModuleAttack, guards: readonly Guard[]): Promise<unknown> {
  const victim = await startVictim(SANDBOX_UID);
  try {
    const targets: Targets = { ...host, victim: victim.pid ?? 0 };
    const script = `const T = ${JSON.stringify(targets)};${PRELUDE}${attack.script}`;
    return await (await hostWithout(guards)).call("act", script);
  } finally {
    victim.kill("SIGKILL");
  }
}

describe.runIf(canHaveSandboxes && process.arch === "x64")("a user's module", { timeout: 120_000 }, () => {
  beforeAll(async () => {
    chmodSync(folder, 0o755);
    for (const path of [host.key, host.certificate, host.writable]) {
      writeFileSync(path, "secret");
      chmodSync(path, 0o666);
    }
    await listen(host.socket);
    chmodSync(host.socket, 0o777);
    await listen(`\0${host.abstract}`);
    host.port = ((await listen({ port: 0, host: "0.0.0.0" })).address() as { port: number }).port;
    process.env["WHETSTONE_TEST_SECRET"] = "secret";
  });

  afterAll(async () => {
    delete process.env["WHETSTONE_TEST_SECRET"];
    await closing.disposeAsync();
    rmSync(folder, { recursive: true });
  });

  describe.each(MODULE_ATTACKS)("that $name", (attack) => {
    it("is held", async () => {
      expect(await outcome(attack, [])).toMatch(/^held/);
    });

    it(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, attack.guards)).toBe("ESCAPED");
    });
  });

  it("ends when a program that it started takes too much memory", async () => {
    const script = `${PRELUDE} return new Promise(() => cp.spawn("python3", ["-c", "import time; x = bytearray(1_200_000_000); time.sleep(20)"]))`;
    const attacker = open(closing.use(await ProcessBackend.start()));
    await expect(attacker.call("act", script)).rejects.toMatchObject({ code: "MODULE_TOO_LARGE" });
  });

  it("reaches the gateway, and through the proxy what its job names, and nothing else", async () => {
    const backend = closing.use(await ProcessBackend.start());
    const named = await listen({ port: 0, host: "127.0.0.1" }, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nnamed");
    const { port } = named.address() as { port: number };
    const { connect } = await import("node:net");
    const gateway = () => connect({ host: "127.0.0.1", port, allowHalfOpen: true });
    const reach = closing.use(await openReach({ backend, gateway, network: [`127.0.0.2:${port}`] }));
    const other = closing.use(await openReach({ backend, network: [] }));
    const get = (url: string): string => `return (await (await fetch("${url}")).text()) === "named"`;
    const attacker = open(backend, reach.path);
    await listen({ port, host: "127.0.0.2" }, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nnamed");
    expect(await attacker.call("act", get("http://127.0.0.1:8080/v1"))).toBe("ESCAPED");
    expect(await attacker.call("act", get(`http://127.0.0.2:${port}/`))).toBe("ESCAPED");
    expect(await attacker.call("act", get(`http://127.0.0.3:${port}/`))).toMatch(/^held/);
    expect(await open(backend, other.path).call("act", get("http://127.0.0.1:8080/v1"))).toMatch(/^held/);
  });
});
