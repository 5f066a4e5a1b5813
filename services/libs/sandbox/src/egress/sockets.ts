// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import type { Server } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";

export interface SocketFolder extends AsyncDisposable {
  readonly path: string;
}

/**
 * Servers as sockets of a folder that sandboxes see.
 * @param servers  by the socket's name
 * @returns the folder; disposed, it is removed, and nothing listens any more
 */
export async function serveSockets(
  folder: SocketFolder,
  servers: Readonly<Record<string, Server | undefined>>,
): Promise<SocketFolder> {
  await using opening = new AsyncDisposableStack();
  opening.use(folder);
  for (const [name, server] of Object.entries(servers))
    if (server !== undefined) await serve(server, join(folder.path, name), opening);
  const opened = opening.move();
  return { path: folder.path, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

async function serve(server: Server, path: string, opening: AsyncDisposableStack): Promise<void> {
  const connections = new Set<Duplex>();
  server.on("connection", (connection: Duplex) => {
    connections.add(connection);
    connection.once("close", () => connections.delete(connection));
  });
  server.listen(path);
  await once(server, "listening");
  await chmod(path, 0o666);
  opening.defer(async () => {
    for (const connection of connections) connection.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
}
