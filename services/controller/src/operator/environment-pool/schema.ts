// SPDX-License-Identifier: Apache-2.0
/** EnvironmentPool: what the chart's definition, the types and the reference page are made from. */
import type { ConditionChange, KubeObject, Stored } from "@whetstone/kube";
import { ScalePoolRequestSchema } from "@whetstone/proto/pools/v1/pools";
import { z } from "zod";
import { asContract, conditions, type CustomResource, int32, int64, name, ownKind, rules } from "../custom-resource.ts";

export interface EnvironmentPool extends KubeObject {
  spec: PoolSpec;
  status?: PoolStatus;
}

export type StoredPool = Stored<EnvironmentPool>;

export const ENVIRONMENT_POOLS = ownKind<EnvironmentPool>("EnvironmentPool", "environmentpools");

export const POOL_CONDITIONS = ["Ready", "Scaling", "Degraded"] as const;

/** A closed list. */
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

export type PoolConditionChange = ConditionChange<(typeof POOL_CONDITIONS)[number], (typeof POOL_REASONS)[number]>;

const autoscaling = z
  .object({
    enabled: z.boolean().default(false),
    min: int32(0, 10_000).default(0),
    max: int32(1, 10_000).default(10),
    cooldownSeconds: int32(0, 86_400)
      .default(120)
      .describe("An env-runner leaves only when it was not needed for so long."),
  })
  .default({ enabled: false, min: 0, max: 10, cooldownSeconds: 120 })
  .describe("Sets replicas by the episodes that are dispatched and not sealed, without KEDA or an HPA.")
  .meta(rules({ rule: "self.min <= self.max", message: "must not be above max", fieldPath: ".min" }));

const labels = z.record(z.string(), z.string()).optional();
const container = z.looseObject({ name: name(63), image: name(1024) });
const podSpec = z.looseObject({ containers: z.array(container).min(1).max(20) });

const spec = z.object({
  replicas: asContract(ScalePoolRequestSchema.field.replicas)
    .default(1)
    .describe("Env-runners wanted. 0 is fine; tasks then wait in their stream. With autoscaling it is set by itself."),
  kinds: z
    .array(name(200))
    .max(100)
    .optional()
    .describe("Kinds of environment that jobs may name here. Absent: all that its env-runners have."),
  slotsPerWorker: int32(1, 100_000).default(256).describe("Sessions that one env-runner takes at once."),
  drain: z
    .object({
      deadlineSeconds: int32(0, 86_400)
        .default(120)
        .describe("How long the sessions of an env-runner that leaves may go on."),
      onDeadline: z
        .enum(["HandBack"])
        .default("HandBack")
        .describe("HandBack: what is left is played again elsewhere, under the same id and without using up a retry."),
    })
    .prefault({}),
  autoscaling,
  template: z
    .object({ metadata: z.object({ labels, annotations: labels }).optional(), spec: podSpec })
    .describe(
      'Pod template. The container "env-runner", or the first, gets the settings WHETSTONE_SLOTS and WHETSTONE_DRAIN_MS. A change makes the pods anew, some at a time.',
    ),
});

/** What has a default is always there: the API server fills it in. */
export type PoolSpec = z.output<typeof spec>;
export type PoolAutoscaling = PoolSpec["autoscaling"];
/** What is not named here is passed on as it is. */
export interface PoolContainer {
  readonly name: string;
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly [passedOn: string]: unknown;
}

const count = int32(-2_147_483_648, 2_147_483_647);
const status = z.object({
  observedGeneration: int64().optional(),
  replicas: count.optional().describe("Pods that are there and do not leave."),
  ready: count.optional(),
  draining: count.optional(),
  busySlots: count.optional(),
  freeSlots: count.optional(),
  wantedSlots: count.optional().describe("Episodes of running jobs that are dispatched and not sealed."),
  selector: z.string().optional(),
  conditions: conditions(POOL_CONDITIONS, POOL_REASONS).optional(),
});

export type PoolStatus = z.output<typeof status>;

export const ENVIRONMENT_POOL: CustomResource = {
  kind: "EnvironmentPool",
  plural: "environmentpools",
  shortName: "envpool",
  description:
    "Env-runners, each in a pod. Those that leave finish their episodes or hand them back, so that scaling loses none.",
  maxNameLength: 40,
  isScaled: true,
  columns: [
    { name: "Wanted", type: "integer", jsonPath: ".spec.replicas" },
    { name: "Ready", type: "integer", jsonPath: ".status.ready" },
    { name: "Draining", type: "integer", jsonPath: ".status.draining" },
    { name: "Busy", type: "integer", jsonPath: ".status.busySlots", description: "Sessions that are open." },
    { name: "Free", type: "integer", jsonPath: ".status.freeSlots", description: "Sessions that could be opened." },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Wanted Slots", type: "integer", jsonPath: ".status.wantedSlots", priority: 1 },
    { name: "Message", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
  spec,
  status,
};

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
