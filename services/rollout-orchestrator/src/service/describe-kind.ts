// SPDX-License-Identifier: Apache-2.0
import { AgentForm } from "@whetstone/proto/rollouts/v1/rollouts";
import type { RegisteredActor } from "@whetstone/sdk";

const WIRE_FORM = {
  agent: AgentForm.AGENT,
  workflow: AgentForm.WORKFLOW,
  rollout: AgentForm.ROLLOUT,
} as const satisfies Record<RegisteredActor["form"], AgentForm>;

export function describeKind({ kind, description, argsSchema, form }: RegisteredActor) {
  return { kind, description, argsSchemaJson: JSON.stringify(argsSchema), form: WIRE_FORM[form] };
}
