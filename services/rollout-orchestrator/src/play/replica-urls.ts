// SPDX-License-Identifier: Apache-2.0
import { everyAddress } from "@whetstone/core";

/** Where the ports of one replica of the gateway are. */
export interface ReplicaUrls {
  readonly gatewayUrl: string;
  readonly agentGatewayUrl?: string | undefined;
  readonly publicGatewayUrl?: string | undefined;
}

/** As the settings have it: the n-th port for agents is that of the n-th gateway. */
export interface GatewayUrls {
  readonly gatewayUrl: readonly string[];
  readonly agentGatewayUrl: readonly string[];
  readonly publicGatewayUrl?: string | undefined;
}

type EveryHost = (hostname: string) => Promise<string[]>;

/** The replicas as name service tells them now: a host name stands for all of its addresses. One that is not known stays as it is. */
export async function replicaUrls(urls: GatewayUrls, everyHost: EveryHost = everyAddress): Promise<ReplicaUrls[]> {
  const { gatewayUrl, agentGatewayUrl, publicGatewayUrl } = urls;
  const expanded = gatewayUrl.map(async (url, index) => {
    const { hostname } = new URL(url);
    const hosts = await everyHost(hostname);
    const agentUrl = agentGatewayUrl[index];
    if (hosts.length <= 1) return [{ gatewayUrl: url, agentGatewayUrl: agentUrl, publicGatewayUrl }];
    return hosts.map((host) => ({
      gatewayUrl: at(host, url),
      agentGatewayUrl: agentUrl && at(host, agentUrl),
      publicGatewayUrl,
    }));
  });
  return (await Promise.all(expanded)).flat();
}

function at(host: string, url: string): string {
  const { protocol, port, pathname } = new URL(url);
  return `${protocol}//${host}${port && `:${port}`}${pathname === "/" ? "" : pathname}`;
}
