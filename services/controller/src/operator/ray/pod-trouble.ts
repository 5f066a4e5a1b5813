// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@whetstone/kube";

type PodStatus = NonNullable<Pod["status"]>;
type ContainerStatus = NonNullable<PodStatus["containerStatuses"]>[number];

const STARTING: readonly (string | undefined)[] = ["PodInitializing", "ContainerCreating"];

/** Why a pod is not ready, for people. Empty: it is, or it just starts. */
export function troubleOf({ metadata, status = {} }: Pod): string {
  const name = metadata?.name ?? "";
  if (metadata?.deletionTimestamp) return `${name} is being deleted`;
  const text = podText(status) || containersText(status);
  return text && `${name}: ${text}`;
}

function podText({ phase, reason, message, conditions = [] }: PodStatus): string {
  if (phase === "Failed") return `failed: ${[reason, message].filter(Boolean).join(", ")}`;
  const homeless = conditions.find(({ type, status }) => type === "PodScheduled" && status === "False");
  return homeless ? `has no node: ${homeless.message ?? ""}` : "";
}

function containersText({ initContainerStatuses = [], containerStatuses = [] }: PodStatus): string {
  const all = [...initContainerStatuses, ...containerStatuses].filter(({ ready }) => !ready);
  return all.map(containerTrouble).filter(Boolean).join(", ");
}

function containerTrouble({ name, state, lastState }: ContainerStatus): string {
  const { waiting } = state ?? {};
  const ended = state?.terminated ?? lastState?.terminated;
  const waits = waiting && !STARTING.includes(waiting.reason) && [waiting.reason, waiting.message].filter(Boolean);
  return [
    waits ? `${name} waits: ${waits.join(", ")}` : "",
    ended && ended.exitCode !== 0 ? `${name} ended: ${ended.reason ?? "Error"}, exit code ${ended.exitCode}` : "",
  ]
    .filter(Boolean)
    .join(", ");
}
