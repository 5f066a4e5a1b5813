// SPDX-License-Identifier: Apache-2.0
import { request } from "node:https";
import { WhetstoneError } from "@whetstone/core";
import { DAEMON_PORT, type PodIdentity } from "../operator/sandbox-pool/pods.ts";

export interface Handover {
  readonly ip: string;
  readonly identity: PodIdentity;
  /** Of the certificate that the episode will show. */
  readonly fingerprint: string;
  readonly ttlMs: number;
}

/** Tells the daemon of a pod whose it is. Mutual TLS: both ends show the certificate that only they have the key of. */
export function handOver({ ip, identity, fingerprint, ttlMs }: Handover, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const { key, certificate: cert } = identity;
  const call = request({
    ...{ host: ip, port: DAEMON_PORT, path: "/claim", method: "POST", signal },
    ...{ key, cert, ca: cert, minVersion: "TLSv1.3", agent: false },
    checkServerIdentity: () => undefined,
  });
  call.once("response", (response) => {
    response.resume();
    if (response.statusCode === 204) resolve();
    else reject(new WhetstoneError("CONFLICT", `the sandbox at ${ip} refused the claim: ${response.statusCode}`));
  });
  call.on("error", reject);
  call.end(JSON.stringify({ episode: fingerprint, ttlMs }));
  return promise;
}

export function daemonAddress(ip: string): string {
  return ip.includes(":") ? `[${ip}]:${DAEMON_PORT}` : `${ip}:${DAEMON_PORT}`;
}
