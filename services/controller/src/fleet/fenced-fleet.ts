// SPDX-License-Identifier: Apache-2.0
import type { RpcClient } from "@whetstone/rpc";
import type { FleetService } from "@whetstone/proto/inference/v1/inference";
import type { Authority } from "../leading/lead.ts";

export type FleetClient = RpcClient<typeof FleetService>;

/** The gateway's FleetService; every call that changes something carries the epoch of this lead, or is not made at all. */
export function fencedFleet(client: FleetClient, lead: Authority): FleetClient {
  const fenced = <Request extends object, Rest extends unknown[], Answer>(
    call: (request: Request, ...rest: Rest) => Promise<Answer>,
  ) => {
    return async (request: Request, ...rest: Rest): Promise<Answer> => {
      lead.assert();
      return await call({ ...request, epoch: lead.epoch }, ...rest);
    };
  };
  return {
    ...client,
    registerEngine: fenced(client.registerEngine),
    fenceEngine: fenced(client.fenceEngine),
    drainEngine: fenced(client.drainEngine),
    unfenceEngine: fenced(client.unfenceEngine),
    removeEngine: fenced(client.removeEngine),
    forgetPolicy: fenced(client.forgetPolicy),
    putAdapters: fenced(client.putAdapters),
    putServings: fenced(client.putServings),
    takeFeedback: fenced(client.takeFeedback),
  };
}
