// SPDX-License-Identifier: Apache-2.0
/** EnvironmentPool as it lies in the API server; its schema is charts/whetstone-crds/templates/environmentpools.yaml. */
import type { KubeObject, ResourceType, Stored } from "@whetstone/kube";

export interface EnvironmentPool extends KubeObject {
  spec: PoolSpec;
  status?: PoolStatus;
}

export type StoredPool = Stored<EnvironmentPool>;

export const ENVIRONMENT_POOLS: ResourceType<EnvironmentPool> = {
  apiVersion: "whetstone.dev/v1alpha1",
  kind: "EnvironmentPool",
  plural: "environmentpools",
  namespaced: true,
};

/** What has a default is always there: the API server fills it in. */
export interface PoolSpec {
  readonly replicas: number;
  readonly slotsPerWorker: number;
  readonly drain: { readonly deadlineSeconds: number; readonly onDeadline: "HandBack" };
  readonly autoscaling: PoolAutoscaling;
  readonly template: {
    readonly metadata?: {
      readonly labels?: Readonly<Record<string, string>>;
      readonly annotations?: Readonly<Record<string, string>>;
    };
    readonly spec: PoolPodSpec;
  };
}

export interface PoolAutoscaling {
  readonly enabled: boolean;
  readonly min: number;
  readonly max: number;
  readonly cooldownSeconds: number;
}

/** A pod's spec; what is not named here is passed on as it is. */
export interface PoolPodSpec {
  readonly containers: readonly PoolContainer[];
  readonly [passedOn: string]: unknown;
}

export interface PoolContainer {
  readonly name: string;
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly [passedOn: string]: unknown;
}

export const POOL_CONDITIONS = ["Ready", "Scaling", "Degraded"] as const;

/** A closed list, also in the schema. */
export const POOL_REASONS = [
  "AllReady",
  "NotEnoughReady",
  "ScaledToZero",
  "Settled",
  "ScalingOut",
  "ScalingIn",
  "RollingOut",
  "Healthy",
  "PodsFailing",
  "PodsPending",
  "PodsRefused",
  "NameTaken",
] as const;

export interface UndatedPoolCondition {
  readonly type: (typeof POOL_CONDITIONS)[number];
  readonly status: boolean;
  readonly reason: (typeof POOL_REASONS)[number];
  readonly message: string;
}

export interface PoolCondition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  observedGeneration?: number;
  lastTransitionTime: string;
}

export interface PoolStatus {
  observedGeneration?: number;
  replicas?: number;
  ready?: number;
  draining?: number;
  busySlots?: number;
  freeSlots?: number;
  wantedSlots?: number;
  selector?: string;
  conditions?: PoolCondition[];
}

export const POOL_LABELS = {
  managedBy: "app.kubernetes.io/managed-by",
  pool: "whetstone.dev/pool",
  /** Hash of everything that a pod was made from; another one means: make it anew. */
  template: "whetstone.dev/template",
  /** Sessions that it takes at once. */
  slots: "whetstone.dev/slots",
} as const;

/** On a pod: since when it drains, RFC 3339. Survives the controller. */
export const DRAINING_SINCE = "whetstone.dev/draining-since";
/** On a pool: somebody needs an env-runner until then, RFC 3339, though nothing is dispatched. */
export const WANTED_UNTIL = "whetstone.dev/wanted-until";
export const ENVIRONMENT_PORT = 9081;

/** Of the EnvironmentService of a pod. */
export function runnerAddress({ ip }: { readonly ip: string }): string {
  return ip.includes(":") ? `[${ip}]:${ENVIRONMENT_PORT}` : `${ip}:${ENVIRONMENT_PORT}`;
}
