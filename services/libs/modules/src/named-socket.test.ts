// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { connectNamed, namedServer } from "./named-socket.ts";

const folder = mkdtempSync(join(tmpdir(), "whetstone-named-"));
let servers: Server[] = [];
let count = 0;

beforeEach(() => {
  servers = [];
  count += 1;
});
afterEach(() => {
  for (const server of servers) server.close();
  if (count === 3) rmSync(folder, { recursive: true });
});

/** Says its name and what it was sent. */
async function serverCalled(name: string): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    // Not read as a whole by iteration: that would end both directions.
    const sent: Buffer[] = [];
    socket.on("data", (part: Buffer) => sent.push(part));
    socket.once("end", () => socket.end(`${name}: ${Buffer.concat(sent).toString()}`));
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function socketTo(...names: string[]): Promise<string> {
  const ports = new Map(await Promise.all(names.map(async (name) => [name, await serverCalled(name)] as const)));
  const path = join(folder, String(count));
  const server = namedServer((name) => {
    const port = ports.get(name);
    return port === undefined ? undefined : connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  });
  servers.push(server);
  server.listen(path);
  await once(server, "listening");
  return path;
}

it("leads each connection to the server that it names", async () => {
  const path = await socketTo("a", "b");
  const said = ["a", "b", "a"].map(async (name, index) => {
    const socket = connectNamed(path, name);
    socket.end(`hello ${index}\nand more`);
    return await text(socket);
  });
  expect(await Promise.all(said)).toEqual(["a: hello 0\nand more", "b: hello 1\nand more", "a: hello 2\nand more"]);
});

it("ends a connection to a name that is not known, and one that names nobody", async () => {
  const path = await socketTo("a");
  expect(await text(connectNamed(path, "c"))).toBe("");
  expect(await text(connectNamed(path, "x".repeat(2_000)))).toBe("");
});

it("ends with its server", async () => {
  const path = await socketTo("a");
  const socket = connectNamed(path, "a");
  socket.write("half");
  socket.destroy();
  await once(socket, "close");
  expect(socket.destroyed).toBe(true);
});
