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
export interface WantedPolicy {
  readonly job: string;
  readonly policyVersion: bigint;
}

export function fleetView(fleets: FleetDirectory, wanted: () => WantedPolicy | undefined): ServiceImplementation {
  return implement(FleetViewService, {
    listFleets: async () => {
      const listed = await fleets.list();
      const policy = wanted() ?? servedBy(listed);
      return { fleets: listed, ...(policy && { policy: policy.job, policyVersion: policy.policyVersion }) };
    },
    scaleFleet: async (request) => {
      requireRules(ScaleFleetRequestSchema, request);
      return { fleet: await fleets.scale(request.name, request.replicas) };
    },
  });
}

/** Only the replica of the controller that leads knows what is wanted; the others tell by what is served. */
function servedBy(fleets: readonly Fleet[]): WantedPolicy | undefined {
  const serving = fleets.flatMap(({ replicas }) => replicas).filter(({ state }) => state === ReplicaState.SERVING);
  const versions = serving.map(({ policy, policyVersion = 0n }) => ({ job: policy, policyVersion }));
  return versions.sort((a, b) => Number(b.policyVersion - a.policyVersion))[0];
}
