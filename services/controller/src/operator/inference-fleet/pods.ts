// SPDX-License-Identifier: Apache-2.0
/** Pods of a fleet, and the LeaderWorkerSet of one whose engines take several nodes. Pure: the same fleet, the same text. */
import { createHash } from "node:crypto";
import { type Draft, type KubeObject, ownedBy, type Pod, resource } from "@whetstone/kube";
import { type FleetSpec, INFERENCE_FLEETS, LABELS, SERVING_GATE, type StoredFleet } from "./schema.ts";
import { modelMaker, pytorchEngine, RENDEZVOUS_PORT, vllmEngine, vllmProxy } from "./containers.ts";

export interface LeaderWorkerSet extends KubeObject {
  spec?: { replicas?: number; leaderWorkerTemplate?: object };
}

export const LEADER_WORKER_SETS = resource<LeaderWorkerSet>(
  "leaderworkerset.x-k8s.io/v1",
  "LeaderWorkerSet",
  "leaderworkersets",
);
/** Labels that LeaderWorkerSet puts on its pods. */
export const LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index";

const POD_SECURITY = {
  runAsNonRoot: true,
  runAsUser: 10_001,
  runAsGroup: 10_001,
  fsGroup: 10_001,
  fsGroupChangePolicy: "OnRootMismatch",
  seccompProfile: { type: "RuntimeDefault" },
};

/** Changes when, and only when, pods have to be made anew. */
export function templateHash(spec: FleetSpec): string {
  const { labels, annotations } = spec.template;
  const text = JSON.stringify([podSpec(spec), labels ?? {}, annotations ?? {}]);
  return createHash("sha256").update(text).digest("hex").slice(0, 10);
}

export function podName(fleet: string, ordinal: number): string {
  return `${fleet}-${ordinal}`;
}

export function engineSelector(fleet: string): string {
  return `${LABELS.fleet}=${fleet}`;
}

/** One engine on one node. */
export function enginePod(fleet: StoredFleet, ordinal: number): Draft<Pod> {
  const name = podName(fleet.metadata.name, ordinal);
  const metadata = { name, ...podMetadata(fleet), ownerReferences: [ownedBy(fleet, INFERENCE_FLEETS)] };
  // A name of its own behind a headless Service of the fleet's name, where there is one.
  return { metadata, spec: { ...podSpec(fleet.spec), hostname: name, subdomain: fleet.metadata.name } } as Draft<Pod>;
}

/** Engines of several nodes each: a leader with HTTP, and workers without. */
export function leaderWorkerSet(fleet: StoredFleet, replicas: number): Draft<LeaderWorkerSet> {
  const { spec } = fleet;
  const metadata = podMetadata(fleet);
  return {
    metadata: {
      name: fleet.metadata.name,
      labels: ownLabels(fleet.metadata.name),
      ownerReferences: [ownedBy(fleet, INFERENCE_FLEETS)],
    },
    spec: {
      replicas,
      leaderWorkerTemplate: {
        size: spec.nodesPerReplica,
        // A rank that is lost hangs the others: all of the replica start again.
        restartPolicy: "RecreateGroupOnPodRestart",
        leaderTemplate: { metadata, spec: podSpec(spec) },
        workerTemplate: { metadata, spec: workerSpec(spec) },
      },
    },
  };
}

function ownLabels(fleet: string): Record<string, string> {
  return { [LABELS.managedBy]: "whetstone", [LABELS.fleet]: fleet };
}

/** Labels of the user's never replace ours. */
function podMetadata(fleet: StoredFleet): { labels: Record<string, string>; annotations?: Record<string, string> } {
  const { labels, annotations } = fleet.spec.template;
  return {
    labels: { ...labels, ...ownLabels(fleet.metadata.name), [LABELS.template]: templateHash(fleet.spec) },
    ...(annotations && { annotations: { ...annotations } }),
  };
}

const PASSED_ON = [
  "imagePullSecrets",
  "nodeSelector",
  "tolerations",
  "affinity",
  "topologySpreadConstraints",
  "runtimeClassName",
  "priorityClassName",
  "schedulerName",
  "serviceAccountName",
  "schedulingGates",
];

function podSpec(spec: FleetSpec): object {
  const vllm = spec.engine.profile === "vllm";
  const init = [...(spec.model.init ? [modelMaker(spec, spec.model.init)] : []), ...(vllm ? [vllmProxy(spec)] : [])];
  return {
    ...shared(spec),
    readinessGates: [{ conditionType: SERVING_GATE }],
    ...(init.length > 0 && { initContainers: init }),
    containers: [vllm ? vllmEngine(spec, "server") : pytorchEngine(spec)],
  };
}

function workerSpec(spec: FleetSpec): object {
  const { startupProbe: _http, readinessProbe: _ready, ...container } = vllmEngine(spec, "worker");
  // Without HTTP: a rank that lost its leader would look alive for hours.
  const exec = { command: ["bash", "-c", `exec 3<>/dev/tcp/$LWS_LEADER_ADDRESS/${RENDEZVOUS_PORT}`] };
  const alive = { exec, periodSeconds: 30, failureThreshold: 10 };
  return { ...shared(spec), containers: [{ ...container, livenessProbe: { ...alive, initialDelaySeconds: 600 } }] };
}

function shared(spec: FleetSpec): object {
  const { template } = spec;
  const parts: Readonly<Record<string, unknown>> = template;
  const passed = PASSED_ON.filter((field) => parts[field] !== undefined).map((field) => [field, parts[field]]);
  return {
    ...(Object.fromEntries(passed) as object),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: template.terminationGracePeriodSeconds,
    securityContext: template.securityContext ?? POD_SECURITY,
    volumes: volumes(spec),
  };
}

function volumes({ modelVolume, engine, template }: FleetSpec): object[] {
  return [
    ...(modelVolume ? [{ name: "models", persistentVolumeClaim: { claimName: modelVolume.claimName } }] : []),
    { name: "tmp", emptyDir: {} },
    ...(engine.profile === "vllm" ? [{ name: "shm", emptyDir: { medium: "Memory" } }] : []),
    ...(template.volumes ?? []),
  ];
}
