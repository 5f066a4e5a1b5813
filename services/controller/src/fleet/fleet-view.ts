// SPDX-License-Identifier: Apache-2.0
import { requireRules } from "@whetstone/contract/check";
import {
  type Fleet,
  FleetViewService,
  ReplicaState,
  ScaleFleetRequestSchema,
} from "@whetstone/proto/inference/v1/inference";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { FleetDirectory } from "./fleet-directory.ts";

/** What a job wants engines to serve. */
interface WantedPolicy {
  readonly job: string;
  readonly policyVersion: bigint;
}

export function fleetView(
  fleets: FleetDirectory,
  fleet: { readonly wanted: readonly WantedPolicy[] },
): ServiceImplementation {
  return implement(FleetViewService, {
    listFleets: async () => {
      const listed = await fleets.list();
      const wanted = fleet.wanted.length > 0 ? fleet.wanted : servedBy(listed);
      const policies = wanted.map(({ job, policyVersion }) => ({ policy: job, policyVersion }));
      return { fleets: listed, policies };
    },
    scaleFleet: async (request) => {
      requireRules(ScaleFleetRequestSchema, request);
      return { fleet: await fleets.scale(request.name, request.replicas) };
    },
  });
}

/** Only the replica of the controller that leads knows what is wanted; the others tell by what is served. */
function servedBy(fleets: readonly Fleet[]): WantedPolicy[] {
  const newest = new Map<string, bigint>();
  for (const { state, policy, policyVersion = 0n } of fleets.flatMap(({ replicas }) => replicas))
    if (state === ReplicaState.SERVING && policyVersion >= (newest.get(policy) ?? 0n))
      newest.set(policy, policyVersion);
  return [...newest].map(([job, policyVersion]) => ({ job, policyVersion }));
}
