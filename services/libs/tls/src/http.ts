// SPDX-License-Identifier: Apache-2.0
import type { Socket } from "node:net";
import { buildConnector } from "undici";
import type { TlsPeer } from "./identity.ts";

/** Connections of undici's clients that are opened by hand. @param open  begins to connect */
export function connectorThrough(open: () => Socket, timeoutMs = 10_000): buildConnector.connector {
  return (_options, callback) => {
    const socket = open();
    const timer = setTimeout(() => socket.destroy(new Error(`not connected within ${timeoutMs} ms`)), timeoutMs);
    const failed = (error: Error): void => {
      clearTimeout(timer);
      callback(error, null);
    };
    socket.once("error", failed);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", failed);
      callback(null, socket);
    });
  };
}

/** Connections of undici's clients to a peer of that role; each new one uses the newest certificate. */
export function connectorTo(peer: TlsPeer | undefined, timeoutMs = 10_000): buildConnector.connector {
  if (peer === undefined) return buildConnector({ timeout: timeoutMs });
  const { identity, serverName } = peer;
  const build = (): buildConnector.connector =>
    buildConnector({ ...identity.material, servername: serverName, timeout: timeoutMs, allowH2: false });
  let connector = build();
  identity.onChange(() => (connector = build()));
  return (options, callback) => {
    connector({ ...options, servername: serverName }, callback);
  };
}
