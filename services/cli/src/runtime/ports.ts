// SPDX-License-Identifier: Apache-2.0
/** Loopback ports. */
import { createServer } from "node:net";
import type { Server } from "node:net";

export const HOST = "127.0.0.1";

/** `count` different free ports. All are held until the last is found, so none is given twice. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => listen(0)));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map(close));
  return ports;
}

/** Whether somebody listens on a port already (or we may not). */
export async function isPortFree(port: number): Promise<boolean> {
  try {
    await close(await listen(port));
    return true;
  } catch {
    return false;
  }
}

function listen(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ port, host: HOST, exclusive: true }, () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
