// SPDX-License-Identifier: Apache-2.0
/** InferenceFleet as it lies in the API server; its schema is charts/whetstone-crds/templates/inferencefleets.yaml. */
import type { KubeObject, ResourceType, Stored } from "@whetstone/kube";

export interface InferenceFleet extends KubeObject {
  spec: FleetSpec;
  status?: FleetStatus;
}

export type StoredFleet = Stored<InferenceFleet>;

export const INFERENCE_FLEETS: ResourceType<InferenceFleet> = {
  apiVersion: "whetstone.dev/v1alpha1",
  kind: "InferenceFleet",
  plural: "inferencefleets",
  namespaced: true,
};

/** What has a default is always there: the API server fills it in. */
export interface FleetSpec {
  readonly replicas: number;
  readonly nodesPerReplica: number;
  /** Only while a job needs it. */
  readonly onDemand: boolean;
  readonly engine: {
    readonly profile: "pytorch" | "vllm";
    readonly device: "auto" | "cpu" | "cuda";
    readonly dtype: string;
    readonly threads: number;
    readonly args?: readonly string[];
  };
  readonly model: { readonly path: string; readonly init?: { readonly preset: string; readonly seed: number } };
  readonly modelVolume?: { readonly claimName: string; readonly mountPath: string };
  readonly drainSeconds: number;
  readonly updateTimeoutSeconds: number;
  readonly template: FleetTemplate;
}

/** Parts of a pod, as Kubernetes has them; they are passed on as they are. */
export interface FleetTemplate {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly image: string;
  readonly proxyImage?: string;
  readonly imagePullPolicy: string;
  readonly resources?: object;
  readonly proxyResources?: object;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext?: object;
  readonly env?: readonly object[];
  readonly volumes?: readonly object[];
  readonly volumeMounts?: readonly object[];
  readonly [passedOn: string]: unknown;
}

export type ReplicaState = "Serving" | "Paused" | "Updating" | "Stale" | "Down";

/** One line of `status.engines`. */
export interface ReplicaStatus {
  readonly name: string;
  readonly url?: string;
  readonly state: ReplicaState;
  readonly policy?: string;
  readonly policyVersion?: number;
  /** Why it is not Serving. */
  readonly reason?: string;
}

export const CONDITION_TYPES = ["Ready", "Degraded", "Progressing"] as const;

/** A closed list, also in the schema. */
export const REASONS = [
  "AllReady",
  "NotEnoughReady",
  "ScaledToZero",
  "NotNeeded",
  "GatewayUnreachable",
  "LeaderWorkerSetMissing",
  "NameTaken",
  "EngineDown",
  "EngineStale",
  "Healthy",
  "Starting",
  "Scaling",
  "RollingOut",
  "Settled",
] as const;

export interface UndatedFleetCondition {
  readonly type: (typeof CONDITION_TYPES)[number];
  readonly status: "True" | "False" | "Unknown";
  readonly reason: (typeof REASONS)[number];
  readonly message: string;
}

export interface FleetCondition extends UndatedFleetCondition {
  readonly observedGeneration?: number;
  readonly lastTransitionTime: string;
}

export interface FleetStatus {
  observedGeneration?: number;
  replicas?: number;
  readyReplicas?: number;
  updatedReplicas?: number;
  selector?: string;
  ready?: string;
  state?: string;
  message?: string;
  policy?: string;
  policyVersion?: number;
  engines?: ReplicaStatus[];
  conditions?: FleetCondition[];
}

export const LABELS = {
  managedBy: "app.kubernetes.io/managed-by",
  fleet: "whetstone.dev/fleet",
  /** Hash of everything that a pod was made from; another one means: make it anew. */
  template: "whetstone.dev/template",
} as const;
/** Readiness gate of engine pods. */
export const SERVING_GATE = "whetstone.dev/Serving";
export const DATA_PORT = 8000;
export const CONTROL_PORT = 8001;
/** Health and metrics in plain text, for those without certificates. */
export const HEALTH_PORT = 8002;

/** The gateway's name of an engine on a pod. Engines that were configured by hand have no slash. */
export function engineId(fleet: string, pod: string): string {
  return `${fleet}/${pod}`;
}
