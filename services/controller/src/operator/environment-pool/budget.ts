// SPDX-License-Identifier: Apache-2.0
import { DISRUPTION_BUDGETS, type Kube, ownedBy } from "@whetstone/kube";
import { ENVIRONMENT_POOLS, POOL_LABELS, type StoredPool } from "./schema.ts";
import { ownLabels } from "./pods.ts";

const UNAVAILABLE_SHARE = "10%";

/** Of voluntary disruptions, a few at a time: those that are evicted drain by themselves. */
export async function protectPool(kube: Kube, pool: StoredPool, signal: AbortSignal): Promise<void> {
  const { name } = pool.metadata;
  const spec = {
    maxUnavailable: UNAVAILABLE_SHARE,
    unhealthyPodEvictionPolicy: "AlwaysAllow",
    selector: { matchLabels: { [POOL_LABELS.pool]: name } },
  };
  const metadata = {
    name: `pool-${name}`,
    labels: ownLabels(name),
    ownerReferences: [ownedBy(pool, ENVIRONMENT_POOLS)],
  };
  await kube.apply(DISRUPTION_BUDGETS, { metadata, spec }, { signal });
}
