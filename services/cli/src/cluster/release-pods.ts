// SPDX-License-Identifier: Apache-2.0
/** The pods of an installation. */
import { CoreV1Api, CustomObjectsApi, type KubeConfig } from "@kubernetes/client-node";

import { type Installed, RELEASE_LABEL } from "./cluster-names.ts";
import { type PodFacts, type PodView, podView } from "./pod-progress.ts";

/** Those that are not being deleted, by name. */
export async function releasePods(config: KubeConfig, { namespace, release }: Installed): Promise<PodView[]> {
  const api = config.makeApiClient(CoreV1Api);
  const { items } = await api.listNamespacedPod({ namespace, labelSelector: `${RELEASE_LABEL}=${release}` });
  const alive = items.filter(({ metadata, status }) => !metadata?.deletionTimestamp && status?.phase !== "Succeeded");
  return alive.map((pod) => podView(pod as PodFacts)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Their pods are made by the controller, so they come after those of the chart. */
const OWNERS = { InferenceFleet: "inferencefleets", EnvironmentPool: "environmentpools" } as const;

interface OwnerObject {
  readonly metadata: { readonly name: string };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message?: string }[];
  };
}

/** Fleets and pools of the namespace, as if they were pods. */
export async function releaseOwners(config: KubeConfig, { namespace }: Installed): Promise<PodView[]> {
  const api = config.makeApiClient(CustomObjectsApi);
  const lists = Object.entries(OWNERS).map(async ([kind, plural]) => {
    const query = { group: "whetstone.dev", version: "v1alpha1", namespace, plural };
    const { items } = (await api.listNamespacedCustomObject(query)) as { items: OwnerObject[] };
    return items.map(({ metadata, status }) => ownerView(`${kind} ${metadata.name}`, status));
  });
  return (await Promise.all(lists)).flat();
}

function ownerView(name: string, status: OwnerObject["status"]): PodView {
  const condition = status?.conditions?.find(({ type }) => type === "Ready");
  const ready = condition?.status === "True";
  return { name, ready, doing: ready ? "ready" : condition?.message || "starting", restarts: 0 };
}

export interface RunningJob {
  readonly name: string;
  readonly step: number;
  readonly steps: number;
  /** What stands in its way. Empty: nothing. */
  readonly message: string;
}

interface JobObject {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly job?: { readonly loop?: { readonly steps?: number } } };
  readonly status?: { readonly state?: string; readonly step?: number; readonly message?: string };
}

/** As the objects say it, for when the controller cannot: its records are in NATS. */
export async function runningObjects(config: KubeConfig, { namespace }: Installed): Promise<RunningJob[]> {
  const query = { group: "whetstone.dev", version: "v1alpha1", namespace, plural: "trainingjobs" };
  const api = config.makeApiClient(CustomObjectsApi);
  const { items } = (await api.listNamespacedCustomObject(query)) as { items: JobObject[] };
  const running = items.filter(({ status }) => status?.state === "Running");
  return running.map(({ metadata, spec, status }) => ({
    name: metadata.name,
    step: status?.step ?? 0,
    steps: spec.job?.loop?.steps ?? 0,
    message: status?.message ?? "",
  }));
}
