// SPDX-License-Identifier: Apache-2.0
// The pods of the release, and what can be done to them.
import { kubectl } from "./cluster.ts";
import { NAMESPACE } from "./release.ts";

export interface Pod {
  readonly name: string;
  readonly uid: string;
  readonly part: string;
  /** Of environments; "": it is of none. */
  readonly pool: string;
  readonly ip: string;
  readonly ready: boolean;
  readonly containers: readonly { readonly name: string; readonly id: string; readonly restarts: number }[];
}

interface PodObject {
  readonly metadata: { name: string; uid: string; labels?: Record<string, string>; deletionTimestamp?: string };
  readonly status: {
    phase?: string;
    podIP?: string;
    conditions?: { type: string; status: string }[];
    containerStatuses?: { name: string; containerID?: string; restartCount: number }[];
  };
}

/** Those that are to run on, by name. */
export function pods(part?: string): Pod[] {
  const { items } = JSON.parse(kubectl("-n", NAMESPACE, "get", "pods", "-o", "json")) as { items: PodObject[] };
  const alive = items.filter(
    ({ metadata, status }) => !metadata.deletionTimestamp && !/Succeeded|Failed/.test(status.phase ?? ""),
  );
  const all = alive.map(podOf).sort((a, b) => (a.name < b.name ? -1 : 1));
  return part === undefined ? all : all.filter((pod) => pod.part === part);
}

export function podsOfPool(name: string): Pod[] {
  return pods("env-runner").filter(({ pool }) => pool === name);
}

function podOf({ metadata, status }: PodObject): Pod {
  const labels = metadata.labels ?? {};
  const owner = labels["whetstone.dev/pool"] ? "env-runner" : labels["whetstone.dev/fleet"] ? "engine" : "pod";
  return {
    name: metadata.name,
    uid: metadata.uid,
    part: labels["app.kubernetes.io/component"] ?? owner,
    pool: labels["whetstone.dev/pool"] ?? "",
    ip: status.podIP ?? "",
    ready: (status.conditions ?? []).some(({ type, status: is }) => type === "Ready" && is === "True"),
    containers: (status.containerStatuses ?? []).map(({ name, containerID = "", restartCount }) => ({
      name,
      id: containerID.replace(/^\w+:\/\//, ""),
      restarts: restartCount,
    })),
  };
}

/** "nats", "engine", … each once. */
export function parts(): string[] {
  return [...new Set(pods().map(({ part }) => part))];
}

export function deleteNow(pod: Pod): void {
  kubectl("-n", NAMESPACE, "delete", "pod", pod.name, "--grace-period=0", "--force", "--wait=false");
}
