// SPDX-License-Identifier: Apache-2.0
import { buildConnector } from "undici";
import type { TlsPeer } from "./identity.ts";

/** Connections of undici's clients to whoever listens at a socket's path. */
export function connectorToSocket(path: string, timeoutMs = 10_000): buildConnector.connector {
  return buildConnector({ socketPath: path, timeout: timeoutMs, allowH2: false });
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
