// SPDX-License-Identifier: Apache-2.0
// What there is to be had on the host: files, sockets, a process, shared memory.
import { type ChildProcess, execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { startVictim } from "@whetstone/testkit";
import type { Targets } from "./attacks.ts";

export interface HostTargets extends AsyncDisposable {
  readonly targets: Omit<Targets, "victim" | "prepared" | "neighbour">;
  /** A process of the user that sandboxes have, so that nothing but its own process namespace keeps a sandbox from it. */
  startVictim(uid: number): Promise<ChildProcess>;
}

const SHARED_MEMORY = `
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
id = libc.shmget(int(sys.argv[1]), 4096, 0o1666)
if sys.argv[2] == "make": ctypes.memmove(libc.shmat(id, None, 0), b"secret", 6)
else: libc.shmctl(id, 0, None)`;

export async function openHostTargets(): Promise<HostTargets> {
  await using undo = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "whetstone-escape-"));
  undo.defer(() => {
    rmSync(folder, { recursive: true });
  });
  chmodSync(folder, 0o755);
  const [secret, writable, socket] = ["tls.key", "writable", "service.sock"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(secret, "secret");
  chmodSync(secret, 0o644);
  writeFileSync(writable, "");
  chmodSync(writable, 0o666);
  const abstract = `whetstone-${process.pid}`;
  for (const where of [socket, `\0${abstract}`]) undo.use(await listen(where));
  chmodSync(socket, 0o777);
  const tcp = undo.use(await listen({ port: 0, host: "127.0.0.1" }));
  const { port } = tcp.address() as { port: number };
  const shmKey = 0x5748_0000 + (process.pid & 0xffff);
  const sharedMemory = (what: "make" | "remove"): unknown =>
    execFileSync("/usr/bin/python3", ["-c", SHARED_MEMORY, String(shmKey), what]);
  sharedMemory("make");
  undo.defer(() => void sharedMemory("remove"));
  process.env["WHETSTONE_TEST_SECRET"] = "secret";
  undo.defer(() => {
    delete process.env["WHETSTONE_TEST_SECRET"];
  });
  const all = undo.move();
  return {
    targets: { secret, writable, folder, socket, abstract, port, shmKey, hostname: hostname() },
    startVictim,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function listen(where: string | { port: number; host: string }): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => void server.listen(where, resolve));
  return server;
}
