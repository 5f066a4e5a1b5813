// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:net";
import type { Duplex } from "node:stream";
import { egressProxy, type ProcessBackend, serveSockets, type SocketFolder, splice } from "@whetstone/sandbox";

export interface ReachOptions {
  readonly backend: ProcessBackend;
  /** A new connection to the gateway. Absent: it is not reached. */
  readonly gateway?: (() => Duplex) | undefined;
  /** "host:port", each of which may be connected to through the proxy. */
  readonly network: readonly string[];
}

/** What a job's code may connect to: sockets in a folder that its sandboxes see, named as in `REACHED`. */
export async function openReach({ backend, gateway, network }: ReachOptions): Promise<SocketFolder> {
  return await serveSockets(backend.makeFolder(), {
    gateway: gateway && gatewayServer(gateway),
    proxy: network.length > 0 ? egressProxy({ allowed: network, setting: "sandbox.network" }) : undefined,
  });
}

function gatewayServer(connect: () => Duplex) {
  return createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    splice(near, connect());
  });
}
