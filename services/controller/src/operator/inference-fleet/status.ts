// SPDX-License-Identifier: Apache-2.0
import { datedConditions, findCondition } from "@whetstone/kube";
import type { UndatedFleetCondition, FleetStatus, StoredFleet } from "./schema.ts";
import type { FleetFacts, FleetPlan } from "./plan.ts";
import { engineSelector } from "./pods.ts";

/** The whole status: what is not in it is taken out of the object. */
export function fleetStatus(fleet: StoredFleet, facts: FleetFacts, plan: FleetPlan): FleetStatus {
  const { generation, name } = fleet.metadata;
  const versions = plan.replicas.flatMap(({ state, policyVersion }) =>
    state === "Serving" ? (policyVersion ?? []) : [],
  );
  return {
    ...(generation !== undefined && { observedGeneration: generation }),
    replicas: plan.counts.present,
    readyReplicas: plan.counts.ready,
    updatedReplicas: plan.counts.updated,
    selector: engineSelector(name),
    ready: `${plan.counts.ready}/${fleet.spec.replicas}`,
    ...summary(plan.conditions),
    ...(facts.jobs.length > 0 && { policy: facts.jobs.join(", ") }),
    ...(versions.length > 0 && facts.jobs.length < 2 && { policyVersion: Math.min(...versions) }),
    engines: [...plan.replicas],
    conditions: datedConditions(fleet, plan.conditions, facts.now),
  };
}

/** The one word and the one sentence of the printer columns. */
function summary(conditions: readonly UndatedFleetCondition[]): { state: string; message: string } {
  const [ready, degraded, progressing] = ["Ready", "Degraded", "Progressing"].map((type) =>
    findCondition(conditions, type),
  );
  if (degraded?.status === "True") return { state: degraded.reason, message: degraded.message };
  if (progressing?.status === "True") return { state: progressing.reason, message: progressing.message };
  if (ready?.reason === "AllReady") return { state: "Ready", message: "" };
  return { state: ready?.reason ?? "", message: ready?.message ?? "" };
}
