// SPDX-License-Identifier: Apache-2.0
// The escape suite: every attack is held by the sandbox, and gets through when its guards are away.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Attack } from "../../test-support/attack.ts";
import { ATTACKS, PRELUDE, type Targets } from "../../test-support/attacks.ts";
import { ENDED_AT_C, GUARDS_AT_C, NEIGHBOURS, NOT_STOPPED_AT_C } from "../../test-support/lite-attacks.ts";
import { canHaveSandboxes } from "@whetstone/testkit";
import type { ExecResult, SandboxLevel } from "../sandbox.ts";
import { SANDBOX_UID } from "./arguments.ts";
import { GUARDS } from "./guards.ts";
import { ProcessBackend } from "./process-backend.ts";

const DOCS = readFileSync(join(import.meta.dirname, "../../../../../docs/sandboxes.md"), "utf8");
const isRoot = process.getuid?.() === 0;
const limits = { memoryMiB: 100, diskMiB: 20, diskFiles: 500, processes: 60, openFiles: 100 };
const folder = mkdtempSync(join(tmpdir(), "whetstone-escape-"));
const servers: Server[] = [];
const backends = new Map<string, ProcessBackend>();
const host = {
  secret: join(folder, "tls.key"),
  writable: join(folder, "writable"),
  folder,
  socket: join(folder, "service.sock"),
  abstract: `whetstone-${process.pid}`,
  port: 0,
  shmKey: 0x5748_0000 + (process.pid & 0xffff),
  prepared: "",
  neighbour: "",
  hostname: hostname(),
};

/** As the user that sandboxes have, so that nothing but its own process namespace keeps a sandbox from it. */
async function startVictim(): Promise<ChildProcess> {
  const uid = String(SANDBOX_UID);
  const become = isRoot ? ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"] : [];
  const [program = "", ...args] = [...become, "bash", "-c", "echo up; exec -a whetstone-victim sleep 60"];
  const victim = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
  await once(victim.stdout, "data");
  return victim;
}

const SHARED_MEMORY = `
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
id = libc.shmget(int(sys.argv[1]), 4096, 0o1666)
if sys.argv[2] == "make": ctypes.memmove(libc.shmat(id, None, 0), b"secret", 6)
else: libc.shmctl(id, 0, None)`;

const sharedMemory = (what: "make" | "remove"): unknown =>
  execFileSync("/usr/bin/python3", ["-c", SHARED_MEMORY, String(host.shmKey), what]);

async function listen(where: string | { port: number; host: string }): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => void server.listen(where, resolve));
  servers.push(server);
  return server;
}

async function backendWithout(guards: readonly (typeof GUARDS)[number][]): Promise<ProcessBackend> {
  const key = guards.join();
  const backend = backends.get(key) ?? (await ProcessBackend.start({ without: new Set(guards) }));
  backends.set(key, backend);
  return backend;
}

async function outcome(attack: Attack, backend: ProcessBackend, level?: SandboxLevel): Promise<string> {
  return (await resultOf(attack, backend, level)).stdout;
}

async function resultOf(attack: Attack, backend: ProcessBackend, level?: SandboxLevel): Promise<ExecResult> {
  const victim = await startVictim();
  try {
    await using sandbox = await backend.open({ limits, network: level === "C" ? "none" : attack.network, level });
    const targets: Targets = { ...host, victim: victim.pid ?? 0 };
    const program = PRELUDE + attack.script;
    const command = ["/usr/bin/python3", "-c", program, JSON.stringify(targets)];
    return await sandbox.exec(command, { stdin: "" }).result;
  } finally {
    victim.kill("SIGKILL");
  }
}

describe.runIf(canHaveSandboxes && process.arch === "x64")("attacks", { timeout: 60_000 }, () => {
  beforeAll(async () => {
    chmodSync(folder, 0o755);
    writeFileSync(host.secret, "secret");
    chmodSync(host.secret, 0o644);
    writeFileSync(host.writable, "");
    chmodSync(host.writable, 0o666);
    await listen(host.socket);
    chmodSync(host.socket, 0o777);
    await listen(`\0${host.abstract}`);
    const tcp = await listen({ port: 0, host: "127.0.0.1" });
    host.port = (tcp.address() as { port: number }).port;
    sharedMemory("make");
    process.env["WHETSTONE_TEST_SECRET"] = "secret";
    const prepared = await (await backendWithout([])).prepare(folder);
    host.prepared = join(prepared.path, "tls.key");
    const neighbour = await (
      await backendWithout([])
    ).open({ level: "C", files: [{ path: "secret", content: "secret" }] });
    host.neighbour = neighbour.workspace;
  }, 60_000);

  afterAll(async () => {
    for (const backend of backends.values()) await backend[Symbol.asyncDispose]();
    for (const server of servers) server.close();
    sharedMemory("remove");
    delete process.env["WHETSTONE_TEST_SECRET"];
    rmSync(folder, { recursive: true });
  });

  it("are at least 40, and each guard has one that needs it", () => {
    expect(ATTACKS.length).toBeGreaterThanOrEqual(40);
    expect(new Set(ATTACKS.map(({ name }) => name)).size).toBe(ATTACKS.length);
    expect(GUARDS.filter((guard) => !ATTACKS.some(({ guards }) => guards.includes(guard)))).toEqual([]);
  });

  describe.each(ATTACKS)("a command that $name", (attack) => {
    it("is held", async () => {
      expect(await outcome(attack, await backendWithout([]))).not.toContain("ESCAPED");
    });

    it("is held without cgroups", async () => {
      expect(await outcome(attack, await backendWithout([]), "B")).not.toContain("ESCAPED");
    });

    it(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, await backendWithout(attack.guards))).toContain("ESCAPED");
    });
  });

  const notStopped = new Set(NOT_STOPPED_AT_C.map(({ name }) => name));
  const sampled = new Set(ENDED_AT_C.map(({ name }) => name));
  const heldAtC = [...ATTACKS, ...NEIGHBOURS]
    .filter(({ name }) => !notStopped.has(name) && !sampled.has(name))
    .map((attack) => ({ ...attack, guards: GUARDS_AT_C[attack.name] ?? attack.guards }));

  describe.each(heldAtC)("at level C a command that $name", (attack) => {
    it("is held", async () => {
      expect(await outcome(attack, await backendWithout([]), "C")).not.toContain("ESCAPED");
    });

    it.runIf(attack.guards.length > 0)(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, await backendWithout(attack.guards), "C")).toContain("ESCAPED");
    });
  });

  describe.each(ENDED_AT_C)("at level C a command that $name", ({ failure, ...attack }) => {
    it(`is ended by name: ${failure}`, async () => {
      const result = await resultOf(attack, await backendWithout([]), "C");
      expect(result).toMatchObject({ failure, stdout: "" });
    });

    it(`escapes without: ${attack.guards.join(", ")}`, async () => {
      expect(await outcome(attack, await backendWithout(attack.guards), "C")).toContain("ESCAPED");
    });
  });

  it.each(NOT_STOPPED_AT_C)("level C does not stop a command that $name, as docs/sandboxes.md says", async (attack) => {
    expect(await outcome(attack, await backendWithout([]), "C")).toContain("ESCAPED");
    expect(DOCS).toContain(`- ${attack.name}`);
  });
});
