// SPDX-License-Identifier: Apache-2.0
import { type Draft, ownedBy } from "@whetstone/kube";
import { DAEMON_PORT, SANDBOX_LABELS } from "./pods.ts";
import { type NetworkPolicy, SANDBOX_POOLS, type StoredSandboxPool } from "./schema.ts";

/** Connections to the daemon only, who asks there has to have the key; connections out only where the pool says so. */
export function poolPolicy(pool: StoredSandboxPool): Draft<NetworkPolicy> {
  const { name } = pool.metadata;
  return {
    metadata: {
      name: `sandbox-${name}`,
      labels: { [SANDBOX_LABELS.managedBy]: "whetstone", [SANDBOX_LABELS.pool]: name },
      ownerReferences: [ownedBy(pool, SANDBOX_POOLS)],
    },
    spec: {
      podSelector: { matchLabels: { [SANDBOX_LABELS.pool]: name } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [{ ports: [{ protocol: "TCP", port: DAEMON_PORT }] }],
      egress: pool.spec.egress,
    },
  };
}
