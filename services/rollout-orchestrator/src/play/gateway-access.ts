// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { connectionTo, connectorTo, startRelay, type TlsIdentity } from "@whetstone/tls";
import type { GatewayAccess } from "./gateway.ts";

/** Who reaches the gateway, and how. */
export interface GatewayWays {
  /** In plain text. */
  readonly url: string;
  readonly access: GatewayAccess;
  /** For the sandboxes of jobs' modules: to the port of our own services. */
  readonly connect: () => Duplex;
  /** For the sandboxes of programs: to the port for agents, where there is one. */
  readonly connectPrograms: () => Duplex;
}

/** As the settings have it. */
interface Config {
  readonly gatewayUrl: string;
  readonly agentGatewayUrl?: string | undefined;
  readonly publicGatewayUrl?: string | undefined;
}

/** @param opened  closes what this opens */
export async function openGatewayWays(
  { gatewayUrl, agentGatewayUrl, publicGatewayUrl: publicUrl = agentGatewayUrl }: Config,
  tls: TlsIdentity | undefined,
  opened: AsyncDisposableStack,
): Promise<GatewayWays> {
  const peer = tls?.to("gateway");
  const relayUrl = await relayTo(gatewayUrl, tls, opened);
  const agentUrl = agentGatewayUrl && ((await relayTo(agentGatewayUrl, tls, opened)) ?? agentGatewayUrl);
  return {
    url: relayUrl ?? gatewayUrl,
    access: { connect: peer && connectorTo(peer), relayUrl, agentUrl, publicUrl },
    connect: connectionTo(gatewayUrl, peer),
    connectPrograms: connectionTo(agentGatewayUrl ?? gatewayUrl, peer),
  };
}

/** Agents' own clients know no certificates: they reach the gateway through us. Undefined: directly. */
async function relayTo(
  url: string,
  tls: TlsIdentity | undefined,
  opened: AsyncDisposableStack,
): Promise<string | undefined> {
  const { protocol, hostname, port } = new URL(url);
  if (tls === undefined || protocol !== "https:") return undefined;
  const relay = await startRelay({ host: hostname, port: Number(port || 443) }, tls.to("gateway"));
  opened.use(relay);
  return `http://127.0.0.1:${relay.port}`;
}
