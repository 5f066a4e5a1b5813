// SPDX-License-Identifier: Apache-2.0
import type { KubeObject, Stored } from "./objects.ts";

export interface Condition<Type extends string = string, Reason extends string = string> {
  type: Type;
  status: "True" | "False" | "Unknown";
  /** CamelCase, from a closed list of the kind's. */
  reason: Reason;
  message: string;
  observedGeneration?: number;
  lastTransitionTime: string;
}

/** What is to be said, before it has a date. */
export interface ConditionChange<Type extends string = string, Reason extends string = string> {
  readonly type: Type;
  readonly status: Condition["status"] | boolean;
  readonly reason: Reason;
  readonly message?: string;
  readonly observedGeneration?: number | undefined;
}

const MESSAGE_CHARACTERS = 2_000;

/** An object's conditions: these, in this order, each dated by when it came to its status, and said of the object as it is. */
export function datedConditions<Type extends string, Reason extends string>(
  { metadata, status }: Stored<KubeObject & { status?: { conditions?: readonly Condition[] | undefined } }>,
  changes: readonly ConditionChange<Type, Reason>[],
  nowMs: number,
): Condition<Type, Reason>[] {
  const { generation: observedGeneration } = metadata;
  return changes.map((change) => {
    const message = change.message?.slice(0, MESSAGE_CHARACTERS) ?? "";
    const former = findCondition(status?.conditions, change.type);
    return dated(former, { ...change, message, observedGeneration }, new Date(nowMs));
  });
}

/** The list with this condition in its place; `lastTransitionTime` moves only when the status does. The order is kept. */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  change: ConditionChange,
  now: Date = new Date(),
): Condition[] {
  const former = findCondition(conditions, change.type);
  const changed = dated(former, change, now);
  if (!former) return [...(conditions ?? []), changed];
  return (conditions ?? []).map((condition) => (condition === former ? changed : condition));
}

export function findCondition<C extends { readonly type: string }>(
  conditions: readonly C[] | undefined,
  type: string,
): C | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isTrue(
  conditions: readonly { readonly type: string; readonly status: string }[] | undefined,
  type: string,
): boolean {
  return findCondition(conditions, type)?.status === "True";
}

function dated<Type extends string, Reason extends string>(
  former: Condition | undefined,
  { type, reason, message = "", observedGeneration, ...change }: ConditionChange<Type, Reason>,
  now: Date,
): Condition<Type, Reason> {
  const status = typeof change.status === "boolean" ? (change.status ? "True" : "False") : change.status;
  return {
    type,
    status,
    reason,
    message: message.slice(0, 32_768),
    ...(observedGeneration !== undefined && { observedGeneration }),
    lastTransitionTime: former?.status === status ? former.lastTransitionTime : `${now.toISOString().slice(0, 19)}Z`,
  };
}
