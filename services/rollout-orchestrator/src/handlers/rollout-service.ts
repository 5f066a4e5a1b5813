// SPDX-License-Identifier: Apache-2.0
import { AgentForm, RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { RegisteredActor, Registry } from "@whetstone/sdk";

const WIRE_FORM = {
  agent: AgentForm.AGENT,
  workflow: AgentForm.WORKFLOW,
  rollout: AgentForm.ROLLOUT,
} as const satisfies Record<RegisteredActor["form"], AgentForm>;

/** Only DescribeAgents so far; everything else answers UNIMPLEMENTED. */
export function rolloutService(actors: Registry<RegisteredActor>): ServiceImplementation {
  const kinds = actors.kinds.map(describeKind);
  return implement(RolloutService, { describeAgents: () => ({ kinds }) });
}

export function describeKind({ kind, description, argsSchema, form }: RegisteredActor) {
  return { kind, description, argsSchemaJson: JSON.stringify(argsSchema), form: WIRE_FORM[form] };
}
