// SPDX-License-Identifier: Apache-2.0
/** The pods of an installation. */
import { CoreV1Api, type KubeConfig } from "@kubernetes/client-node";

import { type Installed, RELEASE_LABEL } from "../../domain/cluster-names.ts";
import { type PodFacts, type PodView, podView } from "../../domain/pod-progress.ts";

/** Those that are not being deleted, by name. */
export async function releasePods(config: KubeConfig, { namespace, release }: Installed): Promise<PodView[]> {
  const api = config.makeApiClient(CoreV1Api);
  const { items } = await api.listNamespacedPod({ namespace, labelSelector: `${RELEASE_LABEL}=${release}` });
  const alive = items.filter(({ metadata, status }) => !metadata?.deletionTimestamp && status?.phase !== "Succeeded");
  return alive.map((pod) => podView(pod as PodFacts)).sort((a, b) => (a.name < b.name ? -1 : 1));
}
