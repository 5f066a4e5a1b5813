// SPDX-License-Identifier: Apache-2.0
import { silentLogger } from "@whetstone/telemetry";
import type { FleetClient } from "../src/fleet/fenced-fleet.ts";
import { everyGateway, type Gateways } from "../src/fleet/gateways/every-gateway.ts";
import { GatewayReplicas } from "../src/fleet/gateways/gateway-replicas.ts";

/** A gateway with one replica. @param client  what of its FleetService a test needs, as `never`: `listEngines` with the engines alone */
export function oneGateway(client: FleetClient): Gateways {
  const listEngines: FleetClient["listEngines"] = async (request, options) => ({
    ...(await client.listEngines(request, options)),
    waitingCalls: {},
  });
  const replicas = new GatewayReplicas({
    addresses: ["127.0.0.1:1"],
    connect: () => ({ ...client, listEngines }),
  });
  return everyGateway(replicas, silentLogger);
}
