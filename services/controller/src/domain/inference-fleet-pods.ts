// SPDX-License-Identifier: Apache-2.0
/** Pods of a fleet, and the LeaderWorkerSet of one whose engines take several nodes. Pure: the same fleet, the same text. */
import { createHash } from "node:crypto";
import { type Draft, type KubeObject, ownedBy, type Pod, resource } from "@whetstone/kube";
import {
  CONTROL_PORT,
  DATA_PORT,
  type FleetSpec,
  HEALTH_PORT,
  INFERENCE_FLEETS,
  LABELS,
  SERVING_GATE,
  type StoredFleet,
} from "./inference-fleet.ts";

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

/** Where vLLM listens, for its proxy alone. */
const VLLM_PORT = 8100;
/** Where the leader of several nodes meets its workers. */
const RENDEZVOUS_PORT = 29_500;

const RESTRICTED = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } };
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
];

function podSpec(spec: FleetSpec): object {
  const vllm = spec.engine.profile === "vllm";
  const init = [...(spec.model.init ? [modelMaker(spec, spec.model.init)] : []), ...(vllm ? [proxy(spec)] : [])];
  return {
    ...shared(spec),
    readinessGates: [{ conditionType: SERVING_GATE }],
    ...(init.length > 0 && { initContainers: init }),
    containers: [vllm ? vllmEngine(spec, []) : pytorchEngine(spec)],
  };
}

function workerSpec(spec: FleetSpec): object {
  const { startupProbe: _http, readinessProbe: _ready, ...container } = vllmEngine(spec, ["--headless"]);
  // Without HTTP: a rank that lost its leader would look alive for hours.
  const exec = { command: ["bash", "-c", `exec 3<>/dev/tcp/$LWS_LEADER_ADDRESS/${RENDEZVOUS_PORT}`] };
  const alive = { exec, periodSeconds: 30, failureThreshold: 10 };
  return { ...shared(spec), containers: [{ ...container, livenessProbe: { ...alive, initialDelaySeconds: 600 } }] };
}

function shared(spec: FleetSpec): object {
  const { template } = spec;
  const passed = PASSED_ON.filter((field) => template[field] !== undefined).map((field) => [field, template[field]]);
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

function mounts({ modelVolume, engine, template }: FleetSpec, readOnly = true): object[] {
  return [
    ...(modelVolume ? [{ name: "models", mountPath: modelVolume.mountPath, ...(readOnly && { readOnly }) }] : []),
    { name: "tmp", mountPath: "/tmp" },
    ...(engine.profile === "vllm" ? [{ name: "shm", mountPath: "/dev/shm" }] : []),
    ...(template.volumeMounts ?? []),
  ];
}

function container(spec: FleetSpec, name: string, image: string): object {
  const { imagePullPolicy } = spec.template;
  return { name, image, imagePullPolicy, securityContext: RESTRICTED };
}

/** The tool publishes a whole folder or none; of several engines, the first one's stays. */
function modelMaker(spec: FleetSpec, init: { readonly preset: string; readonly seed: number }): object {
  const make = `python -m whetstone_models init "$MODEL" --preset "$PRESET" --seed "$SEED"`;
  return {
    ...container(spec, "make-model", spec.template.image),
    command: ["sh", "-c", `test -f "$MODEL/config.json" || ${make} || test -f "$MODEL/config.json"`],
    env: [
      { name: "MODEL", value: spec.model.path },
      { name: "PRESET", value: init.preset },
      { name: "SEED", value: String(init.seed) },
    ],
    ...(spec.template.resources && { resources: spec.template.resources }),
    volumeMounts: mounts(spec, false),
  };
}

function pytorchEngine(spec: FleetSpec): object {
  const { engine, model, template } = spec;
  return {
    ...container(spec, "engine", template.image),
    args: [
      "whetstone_engine",
      `--model=${model.path}`,
      "--host=0.0.0.0",
      `--port=${DATA_PORT}`,
      `--control-port=${CONTROL_PORT}`,
      `--health-port=${HEALTH_PORT}`,
      "--served-model-name=policy",
      `--device=${engine.device}`,
      `--dtype=${engine.dtype === "auto" ? "float32" : engine.dtype}`,
      `--threads=${engine.threads}`,
      ...(engine.args ?? []),
    ],
    env: [{ name: "OMP_NUM_THREADS", value: String(engine.threads) }, ...(template.env ?? [])],
    ports: PORTS,
    ...PROBES,
    ...(template.resources && { resources: template.resources }),
    volumeMounts: mounts(spec),
  };
}

const PORTS = [
  { name: "http", containerPort: DATA_PORT },
  { name: "control", containerPort: CONTROL_PORT },
  { name: "metrics", containerPort: HEALTH_PORT },
];
/** Alive, whether or not it serves: that is the gate's business. An engine that computes answers late. */
const HEALTH = { httpGet: { port: HEALTH_PORT, path: "/health" } };
const PROBES = {
  startupProbe: { ...HEALTH, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 3600 },
  readinessProbe: { ...HEALTH, periodSeconds: 5, timeoutSeconds: 5 },
  livenessProbe: { ...HEALTH, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
};

/** Stock vLLM. Its control routes have no authentication, so it listens for its proxy alone. */
function vllmEngine(spec: FleetSpec, more: readonly string[]): Record<string, unknown> {
  const { engine, model, template, nodesPerReplica } = spec;
  const group = [
    "--nnodes=$(LWS_GROUP_SIZE)",
    "--node-rank=$(LWS_WORKER_INDEX)",
    "--master-addr=$(LWS_LEADER_ADDRESS)",
  ];
  return {
    ...container(spec, "engine", template.image),
    command: ["vllm", "serve", model.path],
    args: [
      ...["--host=127.0.0.1", `--port=${VLLM_PORT}`, "--served-model-name=policy", `--dtype=${engine.dtype}`],
      ...["--generation-config=vllm", "--logprobs-mode=processed_logprobs", "--enable-prompt-tokens-details"],
      ...["--enable-scale-out", "--api-server-count=1"],
      ...(nodesPerReplica > 1 ? [...group, `--master-port=${RENDEZVOUS_PORT}`] : []),
      ...more,
      ...(engine.args ?? []),
    ],
    // The development routes are what pauses it and loads weights.
    env: [
      { name: "VLLM_SERVER_DEV_MODE", value: "1" },
      { name: "HF_HUB_OFFLINE", value: "1" },
      { name: "VLLM_NO_USAGE_STATS", value: "1" },
      { name: "HOME", value: "/tmp" },
      { name: "OMP_NUM_THREADS", value: String(engine.threads) },
      // On a CPU each would bind itself to the node's first cores, all engines of it to the same.
      { name: "VLLM_CPU_OMP_THREADS_BIND", value: "nobind" },
      ...(template.env ?? []),
    ],
    ...PROBES,
    ...(template.resources && { resources: template.resources }),
    volumeMounts: mounts(spec),
  };
}

/** Starts before the engine and ends after it: an init container that goes on. */
function proxy(spec: FleetSpec): object {
  const { template } = spec;
  return {
    ...container(spec, "proxy", template.proxyImage ?? ""),
    restartPolicy: "Always",
    command: ["node", "dist/engine-proxy.js"],
    env: [
      { name: "WHETSTONE_HOST", value: "0.0.0.0" },
      { name: "WHETSTONE_DATA_PORT", value: String(DATA_PORT) },
      { name: "WHETSTONE_CONTROL_PORT", value: String(CONTROL_PORT) },
      { name: "WHETSTONE_HEALTH_PORT", value: String(HEALTH_PORT) },
      { name: "WHETSTONE_ENGINE_URL", value: `http://127.0.0.1:${VLLM_PORT}` },
      ...(template.env ?? []).filter((entry) => String((entry as { name?: unknown }).name).startsWith("WHETSTONE_")),
    ],
    ports: PORTS,
    ...(template.proxyResources && { resources: template.proxyResources }),
    volumeMounts: mounts(spec),
  };
}
