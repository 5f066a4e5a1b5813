// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { PROXY_PORT, SOCKETS, splice } from "@whetstone/sandbox";
import { EnvHttpProxyAgent, setGlobalDispatcher } from "undici";

/** What a sandbox reaches, each a socket in `SOCKETS`; and the port of its own loopback that leads there. */
export const REACHED = { gateway: 8080, proxy: PROXY_PORT } as const;

/** Leads to every replica of the gateway, each by its name (`connectNamed`). */
type SocketName = keyof typeof REACHED | "gateways";

export function socketOf(name: SocketName): string {
  return join(SOCKETS, name);
}

/** Whether this process is in a sandbox that reaches it so. */
export function hasSocket(name: SocketName): boolean {
  return process.env["WHETSTONE_SANDBOX"] === "1" && existsSync(socketOf(name));
}

/** In a sandbox: users' own clients know URLs, so each socket gets a port of the loopback, which is the sandbox's own. */
export async function forwardSockets(): Promise<void> {
  // Node's fetch goes by undici's global dispatcher, which this package's import has just replaced.
  if (hasSocket("proxy")) setGlobalDispatcher(new EnvHttpProxyAgent({ proxyTunnel: true }));
  for (const [name, port] of Object.entries(REACHED) as [keyof typeof REACHED, number][]) {
    if (!hasSocket(name)) continue;
    const server = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
      splice(near, connect({ path: socketOf(name), allowHalfOpen: true }));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    server.unref();
  }
}
