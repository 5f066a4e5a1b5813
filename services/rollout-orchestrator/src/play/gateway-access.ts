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

/**
 * @param opened  closes what this opens
 * @param agentsAt  where connections of agents go now: this replica's port for them, or another's once it is gone
 */
export async function openGatewayWays(
  { gatewayUrl, agentGatewayUrl, publicGatewayUrl: publicUrl = agentGatewayUrl }: Config,
  tls: TlsIdentity | undefined,
  opened: AsyncDisposableStack,
  agentsAt: () => string | undefined = () => agentGatewayUrl,
): Promise<GatewayWays> {
  const peer = tls?.to("gateway");
  const relayUrl = await relayTo(() => gatewayUrl, tls, opened);
  const agentRelay = agentGatewayUrl && (await relayTo(() => agentsAt() ?? agentGatewayUrl, tls, opened));
  const agentUrl = agentRelay ?? agentGatewayUrl;
  return {
    url: relayUrl ?? gatewayUrl,
    access: { connect: peer && connectorTo(peer), relayUrl, agentUrl, publicUrl },
    connect: connectionTo(gatewayUrl, peer),
    connectPrograms: connectionTo(agentGatewayUrl ?? gatewayUrl, peer),
  };
}

/** Agents' own clients know no certificates: they reach the gateway through us. Undefined: directly. */
async function relayTo(
  urlNow: () => string,
  tls: TlsIdentity | undefined,
  opened: AsyncDisposableStack,
): Promise<string | undefined> {
  if (tls === undefined || new URL(urlNow()).protocol !== "https:") return undefined;
  const target = (): { host: string; port: number } => {
    const { hostname, port } = new URL(urlNow());
    return { host: hostname, port: Number(port || 443) };
  };
  const relay = await startRelay(target, tls.to("gateway"));
  opened.use(relay);
  return `http://127.0.0.1:${relay.port}`;
}
