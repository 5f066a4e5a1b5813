// SPDX-License-Identifier: Apache-2.0
import type { Deployment, Stored } from "@whetstone/kube";
import { describe, expect, it } from "vitest";
import type { FleetSpec, StoredFleet } from "../inference-fleet/schema.ts";
import { enginePod, templateHash } from "../inference-fleet/pods.ts";
import type { Placement } from "../kueue/placement.ts";
import { fleetFor, type Need } from "./need.ts";
import type { PodTemplate } from "../pod-template.ts";
import { isMadeFrom, trainerFor } from "./trainer-deployment.ts";

const gpu = { key: "gpu", operator: "Exists" };
const placement = (pool: string): Placement => ({
  labels: { "kueue.x-k8s.io/podset": "any" },
  annotations: { "kueue.x-k8s.io/workload": "w" },
  nodeSelector: { pool },
  tolerations: [gpu],
  schedulingGates: [{ name: "kueue.x-k8s.io/topology" }],
});
const need = (over: Partial<Need> = {}): Need => ({
  engines: true,
  trainer: true,
  placements: new Map(),
  ...over,
});
const admitted = need({
  placements: new Map([
    ["engines", placement("a100")],
    ["trainer", placement("h100")],
  ]),
});

describe("a fleet on demand", () => {
  const fleet = (onDemand = true): StoredFleet => ({
    metadata: { name: "f", uid: "u", resourceVersion: "1" },
    spec: {
      ...{ replicas: 3, onDemand, nodesPerReplica: 1, drainSeconds: 30, updateTimeoutSeconds: 60 },
      engine: { profile: "pytorch", device: "cuda", dtype: "bfloat16", threads: 1 },
      model: { path: "/data/m" },
      template: {
        ...{ image: "i", imagePullPolicy: "Always", terminationGracePeriodSeconds: 9 },
        ...{ labels: { team: "a" }, nodeSelector: { zone: "z" }, tolerations: [{ key: "mine" }] },
      },
    } satisfies FleetSpec,
  });

  it("wants nothing while nobody needs it; another one is left as it is", () => {
    expect(fleetFor(fleet(), undefined).spec.replicas).toBe(0);
    expect(fleetFor(fleet(), need({ engines: false })).spec.replicas).toBe(0);
    expect(fleetFor(fleet(), need())).toEqual(fleet());
    expect(fleetFor(fleet(false), undefined)).toEqual(fleet(false));
    expect(fleetFor(fleet(false), admitted)).toEqual(fleet(false));
  });

  it("goes where the quota of its pod set is, beside what it asks for itself", () => {
    const { metadata, spec } = enginePod(fleetFor(fleet(), admitted), 0);
    expect(metadata.labels).toMatchObject({ team: "a", "kueue.x-k8s.io/podset": "any", "whetstone.dev/fleet": "f" });
    expect(metadata.annotations).toEqual({ "kueue.x-k8s.io/workload": "w" });
    expect(spec).toMatchObject({
      nodeSelector: { zone: "z", pool: "a100" },
      tolerations: [{ key: "mine" }, gpu],
      schedulingGates: [{ name: "kueue.x-k8s.io/topology" }],
    });
  });

  it("is made anew for another place, and only then", () => {
    const at = (need: Need): string => templateHash(fleetFor(fleet(), need).spec);
    const elsewhere = need({ placements: new Map([["engines", placement("l4")]]) });
    expect(at(admitted)).toBe(at(admitted));
    expect(new Set([at(need()), at(admitted), at(elsewhere)]).size).toBe(3);
  });
});

describe("the trainer on demand", () => {
  const labels = {
    ...{ "app.kubernetes.io/name": "whetstone", "app.kubernetes.io/instance": "r" },
    ...{ "app.kubernetes.io/component": "trainer", "helm.sh/chart": "whetstone-1" },
  };
  const pods: Stored<PodTemplate> = {
    metadata: { name: "r-trainer-on-demand", uid: "u", resourceVersion: "1" },
    template: { metadata: { labels }, spec: { containers: [{ name: "trainer", image: "i" }] } },
  };

  it("is there while a job without one of its own needs it", () => {
    expect(trainerFor(pods, undefined)).toBeUndefined();
    expect(trainerFor(pods, need({ trainer: false }))).toBeUndefined();
    expect(trainerFor(pods, need())).toMatchObject({
      metadata: { name: "r-trainer-on-demand", ownerReferences: [{ kind: "PodTemplate", uid: "u" }] },
      spec: { replicas: 1, strategy: { type: "Recreate" }, template: pods.template },
    });
  });

  it("has pods that the Service finds, and an upgrade does not change its selector", () => {
    const { "helm.sh/chart": _, ...lasting } = labels;
    expect(trainerFor(pods, need())?.spec?.selector).toEqual({ matchLabels: lasting });
  });

  it("goes where the quota of its pod set is, and is made anew only for another place", () => {
    const there = trainerFor(pods, admitted);
    expect(there?.spec?.template).toMatchObject({ spec: { nodeSelector: { pool: "h100" }, tolerations: [gpu] } });
    const made = there as Deployment;
    expect([admitted, need()].map((one) => isMadeFrom(made, trainerFor(pods, one) ?? { metadata: {} }))).toEqual([
      true,
      false,
    ]);
  });
});
