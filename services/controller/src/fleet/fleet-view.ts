// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { type Fleet, FleetViewService, ReplicaState } from "@whetstone/proto/inference/v1/inference";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { FleetDirectory } from "./fleet-directory.ts";

const MOST = 1_000;

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
    scaleFleet: async ({ name, replicas }) => {
      if (replicas > MOST) throw new ConfigError([{ path: "replicas", reason: `must be 0 to ${MOST}` }]);
      return { fleet: await fleets.scale(name, replicas) };
    },
  });
}

/** Only the replica of the controller that leads knows what is wanted; the others tell by what is served. */
function servedBy(fleets: readonly Fleet[]): WantedPolicy | undefined {
  const serving = fleets.flatMap(({ replicas }) => replicas).filter(({ state }) => state === ReplicaState.SERVING);
  const versions = serving.map(({ policy, policyVersion = 0n }) => ({ job: policy, policyVersion }));
  return versions.sort((a, b) => Number(b.policyVersion - a.policyVersion))[0];
}
