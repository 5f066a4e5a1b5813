// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:net";
import type { Duplex } from "node:stream";
import { egressProxy, type ProcessBackend, serveSockets, type SocketFolder, splice } from "@whetstone/sandbox";
import { namedServer } from "./named-socket.ts";

/** How the gateway is reached from a sandbox. */
export interface GatewayReach {
  /** A new connection to the one replica that there is for whoever is in there. */
  readonly gateway?: (() => Duplex) | undefined;
  /** A new connection to a replica by its name; undefined: there is none of that name. */
  readonly gateways?: ((name: string) => Duplex | undefined) | undefined;
}

export interface ReachOptions extends GatewayReach {
  readonly backend: ProcessBackend;
  /** "host:port", each of which may be connected to through the proxy. */
  readonly network: readonly string[];
}

/** What a job's code may connect to: sockets in a folder that its sandboxes see, named as in `REACHED`, and `gateways`. */
export async function openReach({ backend, gateway, gateways, network }: ReachOptions): Promise<SocketFolder> {
  return await serveSockets(backend.makeFolder(), {
    gateway: gateway && gatewayServer(gateway),
    gateways: gateways && namedServer(gateways),
    proxy: network.length > 0 ? egressProxy({ allowed: network, setting: "sandbox.network" }) : undefined,
  });
}

function gatewayServer(connect: () => Duplex) {
  return createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    splice(near, connect());
  });
}
