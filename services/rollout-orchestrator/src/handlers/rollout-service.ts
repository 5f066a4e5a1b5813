// SPDX-License-Identifier: Apache-2.0
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { RegisteredAgent, Registry } from "@whetstone/sdk";

/** Only DescribeAgents so far; everything else answers UNIMPLEMENTED. */
export function rolloutService(agents: Registry<RegisteredAgent>): ServiceImplementation {
  const kinds = agents.kinds.map(({ kind, description, argsSchema }) => ({
    kind,
    description,
    argsSchemaJson: JSON.stringify(argsSchema),
  }));
  return implement(RolloutService, { describeAgents: () => ({ kinds }) });
}
