// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { FleetSpec, StoredFleet } from "./schema.ts";
import { enginePod, leaderWorkerSet, templateHash } from "./pods.ts";

const fleet = (change: Partial<FleetSpec> = {}): StoredFleet => ({
  metadata: { name: "f", uid: "u", resourceVersion: "1" },
  spec: {
    replicas: 1,
    onDemand: false,
    nodesPerReplica: 1,
    engine: { profile: "pytorch", device: "cuda", dtype: "bfloat16", threads: 2, args: ["--max-num-seqs", "9"] },
    model: { path: "/data/models/m", init: { preset: "tiny", seed: 3 } },
    modelVolume: { claimName: "data", mountPath: "/data" },
    drainSeconds: 30,
    updateTimeoutSeconds: 60,
    template: { image: "engine:1", imagePullPolicy: "IfNotPresent", terminationGracePeriodSeconds: 15 },
    ...change,
  },
});
const vllm = (change: Partial<FleetSpec> = {}): StoredFleet => {
  const env = [
    { name: "WHETSTONE_TLS_PATH", value: "/tls" },
    { name: "AWS_REGION", value: "north" },
    { name: "VLLM_CPU_KVCACHE_SPACE", value: "1" },
  ];
  const template = { ...fleet().spec.template, proxyImage: "gateway:1", env };
  const engine = { ...fleet().spec.engine, profile: "vllm" as const };
  return fleet({ engine, template, model: { path: "/data/models/m" }, ...change });
};

interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: string[];
  readonly env?: { name: string; value: string }[];
  readonly volumeMounts?: { name: string; readOnly?: boolean }[];
  readonly restartPolicy?: string;
  readonly securityContext?: { readOnlyRootFilesystem?: boolean };
}
interface PodSpec {
  readonly containers: Container[];
  readonly initContainers?: Container[];
  readonly readinessGates?: { conditionType: string }[];
  readonly automountServiceAccountToken?: boolean;
  readonly nodeSelector?: object;
}
const specOf = (of: StoredFleet): PodSpec => enginePod(of, 0).spec as unknown as PodSpec;

describe("an engine's pod", () => {
  it("has two ports, no token, and models that it cannot write", () => {
    const { containers, initContainers, readinessGates, automountServiceAccountToken } = specOf(fleet());
    const [engine] = containers;
    expect(engine?.args).toEqual(
      expect.arrayContaining(["--port=8000", "--control-port=8001", "--device=cuda", "--dtype=bfloat16", "9"]),
    );
    expect(engine?.volumeMounts?.[0]).toMatchObject({ name: "models", readOnly: true });
    expect(initContainers?.[0]?.volumeMounts?.[0]).not.toHaveProperty("readOnly");
    expect(readinessGates).toEqual([{ conditionType: "whetstone.dev/Serving" }]);
    expect(automountServiceAccountToken).toBe(false);
    for (const each of [...containers, ...(initContainers ?? [])])
      expect(each.securityContext?.readOnlyRootFilesystem).toBe(true);
  });

  it("belongs to its fleet, whatever labels the user gives", () => {
    const labels = { "whetstone.dev/fleet": "other", team: "a" };
    const { metadata } = enginePod(fleet({ template: { ...fleet().spec.template, labels } }), 3);
    expect(metadata).toMatchObject({ name: "f-3", labels: { "whetstone.dev/fleet": "f", team: "a" } });
    expect(metadata.ownerReferences).toMatchObject([{ kind: "InferenceFleet", uid: "u", controller: true }]);
  });

  it("passes scheduling on, and is made anew for what it is made from only", () => {
    const base = fleet().spec;
    const selector = { "nvidia.com/gpu.present": "true" };
    const changed = fleet({ template: { ...base.template, nodeSelector: selector } });
    expect(specOf(changed).nodeSelector).toEqual(selector);
    expect(templateHash(changed.spec)).not.toBe(templateHash(base));
    expect(templateHash({ ...base, replicas: 7, drainSeconds: 1, updateTimeoutSeconds: 1 })).toBe(templateHash(base));
  });
});

describe("vLLM", () => {
  it("listens for its proxy alone, which has certificates and object store and starts first", () => {
    const { containers, initContainers } = specOf(vllm());
    expect(containers.map(({ name }) => name)).toEqual(["engine"]);
    expect(containers[0]?.args).toContain("--host=127.0.0.1");
    expect(initContainers).toMatchObject([{ name: "proxy", image: "gateway:1", restartPolicy: "Always" }]);
    const names = initContainers?.[0]?.env?.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["WHETSTONE_TLS_PATH", "AWS_REGION"]));
    expect(names).not.toContain("VLLM_CPU_KVCACHE_SPACE");
  });

  it("on several nodes is a group: a leader with HTTP, workers without", () => {
    const { spec, metadata } = leaderWorkerSet(vllm({ nodesPerReplica: 2 }), 3);
    const template = spec?.leaderWorkerTemplate as {
      size: number;
      leaderTemplate: { spec: PodSpec };
      workerTemplate: { spec: PodSpec };
    };
    expect([metadata.name, spec?.replicas, template.size]).toEqual(["f", 3, 2]);
    expect(template.leaderTemplate.spec.initContainers).toHaveLength(1);
    const [worker] = template.workerTemplate.spec.containers;
    expect(worker?.args).toEqual(expect.arrayContaining(["--headless", "--node-rank=$(LWS_WORKER_INDEX)"]));
    // vLLM refuses the one with the other.
    expect(worker?.args).not.toContain("--api-server-count=1");
    expect(worker).not.toHaveProperty("startupProbe");
    expect(template.workerTemplate.spec).not.toHaveProperty("readinessGates");
  });
});
