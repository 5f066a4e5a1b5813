// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { AgentForm } from "@whetstone/proto/rollouts/v1/rollouts";
import { Findings, type Violation } from "./violation.ts";

/** The one role of an agent, and of a demonstration. */
const ONLY_ROLE = "agent";

/**
 * Roles that nobody plays, and jobs none of whose roles is trained. Which roles a workflow or a rollout plays, only its
 * episodes tell.
 * @param form  of the job's agent; undefined: nothing is sampled
 */
export function checkPlayed(spec: JobSpec, form: AgentForm | undefined): readonly Violation[] {
  const found = new Findings();
  if (form !== undefined && form !== AgentForm.AGENT) return [];
  const trains = (spec.loop?.steps ?? 0) > 0;
  spec.roles.forEach((role, i) => {
    const isOnly = role.name === ONLY_ROLE;
    found.check(`roles[${i}].name`, isOnly, `nobody plays "${role.name}": this job has one role, "${ONLY_ROLE}"`);
    const isTrained = !role.frozen && !role.model;
    const field = role.model ? "model" : "frozen";
    found.check(
      `roles[${i}].${field}`,
      !isOnly || !trains || isTrained,
      "leaves nothing to train: it is the only role",
    );
  });
  return found.violations;
}
