// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { FleetViewService } from "@whetstone/proto/inference/v1/inference";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { FleetDirectory } from "../adapters/fleet-directory.ts";

const MOST = 1_000;

/** What a job wants engines to serve. */
export interface WantedPolicy {
  readonly job: string;
  readonly policyVersion: bigint;
}

export function fleetView(fleets: FleetDirectory, wanted: () => WantedPolicy | undefined): ServiceImplementation {
  return implement(FleetViewService, {
    listFleets: async () => {
      const policy = wanted();
      const listed = await fleets.list();
      return { fleets: listed, ...(policy && { policy: policy.job, policyVersion: policy.policyVersion }) };
    },
    scaleFleet: async ({ name, replicas }) => {
      if (replicas > MOST) throw new ConfigError([{ path: "replicas", reason: `must be 0 to ${MOST}` }]);
      return { fleet: await fleets.scale(name, replicas) };
    },
  });
}
