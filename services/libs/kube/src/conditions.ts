// SPDX-License-Identifier: Apache-2.0

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  /** CamelCase, from a closed list of the kind's. */
  reason: string;
  message: string;
  observedGeneration?: number;
  lastTransitionTime: string;
}

export interface ConditionChange {
  readonly type: string;
  readonly status: Condition["status"] | boolean;
  readonly reason: string;
  readonly message?: string;
  readonly observedGeneration?: number | undefined;
}

/** The list with this condition in its place; `lastTransitionTime` moves only when the status does. The order is kept. */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  change: ConditionChange,
  now: Date = new Date(),
): Condition[] {
  const { type, reason, message = "", observedGeneration } = change;
  const status = typeof change.status === "boolean" ? (change.status ? "True" : "False") : change.status;
  const former = conditions?.find((condition) => condition.type === type);
  const changed: Condition = {
    type,
    status,
    reason,
    message: message.slice(0, 32_768),
    ...(observedGeneration !== undefined && { observedGeneration }),
    lastTransitionTime: former?.status === status ? former.lastTransitionTime : `${now.toISOString().slice(0, 19)}Z`,
  };
  if (!former) return [...(conditions ?? []), changed];
  return (conditions ?? []).map((condition) => (condition === former ? changed : condition));
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === "True";
}
