// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import { describe, expect, it } from "vitest";
import { isCurrent, sandboxClaim, sandboxTemplate, type SandboxTemplate, sandboxWarmPool } from "./agent-sandbox.ts";
import { makeIdentity } from "./identity.ts";
import type { SandboxPoolSpec, StoredSandboxPool } from "./schema.ts";

const IMAGE = "daemon:1";
const DAY_MS = 86_400_000;

function pool(more: Partial<SandboxPoolSpec> = {}): StoredSandboxPool {
  const size = { cpus: 1, memoryMiB: 256, diskMiB: 64, ttlSeconds: 60 };
  const spec = {
    image: "python",
    imagePullPolicy: "IfNotPresent",
    warm: 2,
    max: 4,
    egress: [],
    imageFolders: [],
    ...size,
    ...more,
  };
  const metadata = { name: "p", uid: "u", resourceVersion: "1" };
  return { metadata, spec: { provider: "agentSandbox", ...spec } as SandboxPoolSpec };
}

const stored = (more?: Partial<SandboxPoolSpec>) =>
  sandboxTemplate(pool(more), IMAGE, makeIdentity()) as unknown as Stored<SandboxTemplate>;

describe("what agent-sandbox is asked for", () => {
  it("is a template without its network policy, which would open the internet", () => {
    const { spec, metadata } = stored();
    expect(spec).toMatchObject({
      networkPolicyManagement: "Unmanaged",
      service: false,
      podTemplate: { metadata: { labels: { "whetstone.dev/sandbox-pool": "p" } }, spec: { restartPolicy: "Never" } },
    });
    expect(metadata.ownerReferences).toMatchObject([{ kind: "SandboxPool", uid: "u", controller: true }]);
  });

  it("is a new template when its pods would be others, or its key is old, and not before", () => {
    const now = Date.now();
    expect(isCurrent(undefined, pool(), IMAGE, now)).toBe(false);
    expect(isCurrent(stored(), pool(), IMAGE, now)).toBe(true);
    expect(isCurrent(stored(), pool({ warm: 1, max: 9 }), IMAGE, now)).toBe(true);
    expect(isCurrent(stored(), pool({ memoryMiB: 512 }), IMAGE, now)).toBe(false);
    expect(isCurrent(stored(), pool(), "daemon:2", now)).toBe(false);
    expect(isCurrent(stored(), pool(), IMAGE, now + 300 * DAY_MS)).toBe(false);
  });

  it("is no more that waits than what is claimed leaves room for", () => {
    expect([0, 2, 3, 9].map((claimed) => sandboxWarmPool(pool(), claimed).spec?.replicas)).toEqual([2, 2, 1, 0]);
  });

  it("is a claim that ends by itself, and that a warm pod can be given to", () => {
    const until = Date.parse("2026-01-01T00:00:00Z");
    const { metadata, spec } = sandboxClaim(pool(), { id: "c", until, owner: "runner", instance: "i" });
    expect(metadata.name).toBe(
      sandboxClaim(pool({ max: 5 }), { id: "c", until, owner: "", instance: "" }).metadata.name,
    );
    expect(spec).toEqual({
      warmPoolRef: { name: "sandbox-p" },
      lifecycle: { shutdownTime: "2026-01-01T00:00:30.000Z", shutdownPolicy: "Delete" },
      additionalPodMetadata: {
        annotations: {
          "whetstone.dev/sandbox-claim": "c",
          "whetstone.dev/claimed-until": "2026-01-01T00:00:00.000Z",
          "whetstone.dev/claim-owner": "runner",
          "whetstone.dev/claim-instance": "i",
        },
      },
    });
  });
});
