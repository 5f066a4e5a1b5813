// SPDX-License-Identifier: Apache-2.0
/** SandboxPool: what the chart's definition, the types and the reference page are made from. */
import { type ConditionChange, type KubeObject, resource, type Stored } from "@whetstone/kube";
import { z } from "zod";
import { conditions, type CustomResource, int32, int64, name, ownKind, passedOn, rules } from "../custom-resource.ts";

export interface SandboxPool extends KubeObject {
  spec: SandboxPoolSpec;
  status?: SandboxPoolStatus;
}

export type StoredSandboxPool = Stored<SandboxPool>;

export const SANDBOX_POOLS = ownKind<SandboxPool>("SandboxPool", "sandboxpools");

export interface NetworkPolicy extends KubeObject {
  spec?: object;
}

export const NETWORK_POLICIES = resource<NetworkPolicy>("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies");

export const SANDBOX_POOL_CONDITIONS = ["Ready", "Degraded"] as const;

/** A closed list. */
export const SANDBOX_POOL_REASONS = [
  "Warm",
  "Warming",
  "AllInUse",
  "NoneKept",
  "NoAgentSandbox",
  "Healthy",
  "PodsFailing",
  "PodsPending",
  "PodsRefused",
] as const;

export type SandboxConditionChange = ConditionChange<
  (typeof SANDBOX_POOL_CONDITIONS)[number],
  (typeof SANDBOX_POOL_REASONS)[number]
>;

/** No part begins with a dot: what leads elsewhere cannot be said. */
const IMAGE_FOLDER = /^(\/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+$/;

const spec = z
  .object({
    image: name(1024).describe("What commands find: any Linux image, with glibc or musl."),
    imagePullPolicy: z.enum(["Always", "IfNotPresent", "Never"]).default("IfNotPresent"),
    imagePullSecrets: z.array(name()).max(20).optional().describe("Names of Secrets."),
    provider: z
      .enum(["pods", "agentSandbox"])
      .default("pods")
      .describe(
        "Who makes the pods: the controller, or kubernetes-sigs/agent-sandbox, which the cluster then has to have.",
      ),
    warm: int32(0, 1000).default(1).describe("Pods that wait, ready to be claimed."),
    max: int32(1, 10_000).default(10).describe("Pods in all, those that are claimed included."),
    ttlSeconds: int32(10, 604_800)
      .default(3600)
      .describe("A claimed pod ends after this time, or a shorter one that its claim asks for."),
    cpus: z.number().min(0.01).max(1024).default(1).describe("Cores of a pod, at most; a tenth of them is reserved."),
    memoryMiB: int32(16, 1_048_576)
      .default(1024)
      .describe("Of a pod, with the files that its commands write. It is reserved."),
    diskMiB: int32(1, 1_048_576).default(512).describe("Of the files that commands write. They lie in memory."),
    imageFolders: z
      .array(z.string().max(200).regex(IMAGE_FOLDER))
      .max(16)
      .default([])
      .describe(
        "Folders of the image, such as /testbed, that commands may write: each begins as a copy, which counts as files that they write.",
      ),
    runtimeClassName: name()
      .optional()
      .describe("A RuntimeClass with a kernel or a virtual machine of its own: gVisor, Kata."),
    egress: z
      .array(passedOn())
      .max(20)
      .default([])
      .describe("Rules of a NetworkPolicy: where commands may connect to. None: nowhere."),
    nodeSelector: z.record(z.string(), z.string()).optional(),
    tolerations: z.array(passedOn()).max(20).optional(),
  })
  .meta(
    rules(
      { rule: "self.warm <= self.max", message: "must not be above max", fieldPath: ".warm" },
      {
        rule: "self.imageFolders.all(folder, !folder.matches('^/(workspace|tmp|proc|sys|dev|whetstone|etc)(/|$)'))",
        message: "must be folders of the image's own: a sandbox, or the system, has others there",
        fieldPath: ".imageFolders",
      },
      {
        rule: "self.provider == oldSelf.provider",
        message: "cannot be changed: make another pool",
        fieldPath: ".provider",
      },
    ),
  );

/** What has a default is always there: the API server fills it in. */
export type SandboxPoolSpec = z.output<typeof spec>;

const count = int32(-2_147_483_648, 2_147_483_647);
const status = z.object({
  observedGeneration: int64().optional(),
  warm: count.optional().describe("Pods that could be claimed now."),
  starting: count.optional(),
  claimed: count.optional(),
  conditions: conditions(SANDBOX_POOL_CONDITIONS, SANDBOX_POOL_REASONS).optional(),
});

export type SandboxPoolStatus = z.output<typeof status>;

export const SANDBOX_POOL: CustomResource = {
  kind: "SandboxPool",
  plural: "sandboxpools",
  shortName: "sbpool",
  description:
    "Pods for what a model wrote, some of them kept warm. Each is claimed for one episode, and deleted after it.",
  maxNameLength: 40,
  columns: [
    { name: "Image", type: "string", jsonPath: ".spec.image" },
    { name: "Wanted", type: "integer", jsonPath: ".spec.warm", description: "Pods that are to be kept warm." },
    { name: "Warm", type: "integer", jsonPath: ".status.warm" },
    { name: "Claimed", type: "integer", jsonPath: ".status.claimed" },
    { name: "Max", type: "integer", jsonPath: ".spec.max" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Message", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
  spec,
  status,
};
