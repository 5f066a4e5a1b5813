// SPDX-License-Identifier: Apache-2.0
/** InferenceFleet: what the chart's definition, the types and the reference page are made from. */
import type { KubeObject, Stored } from "@whetstone/kube";
import { ScaleFleetRequestSchema } from "@whetstone/proto/inference/v1/inference";
import { z } from "zod";
import {
  asContract,
  conditions,
  type CustomResource,
  int32,
  int64,
  listBy,
  name,
  ownKind,
  passedOn,
  rules,
  text,
} from "../custom-resource.ts";

export interface InferenceFleet extends KubeObject {
  spec: FleetSpec;
  status?: FleetStatus;
}

export type StoredFleet = Stored<InferenceFleet>;

export const INFERENCE_FLEETS = ownKind<InferenceFleet>("InferenceFleet", "inferencefleets");

export const CONDITION_TYPES = ["Ready", "Degraded", "Progressing"] as const;

/** A closed list. */
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

/** Before it is said since when. */
export type UndatedFleetCondition = Omit<FleetCondition, "observedGeneration" | "lastTransitionTime">;

const ABSOLUTE = { pattern: "^/" };

const engine = z
  .object({
    profile: z
      .enum(["pytorch", "vllm"])
      .default("pytorch")
      .describe("pytorch: Whetstone's own engine, CPU or one GPU. vllm: vLLM behind our proxy."),
    device: z
      .enum(["auto", "cpu", "cuda"])
      .default("auto")
      .describe("pytorch only; vLLM takes what its image was built for."),
    dtype: z.enum(["auto", "float32", "bfloat16", "float16"]).default("float32"),
    threads: int32(1, 1024).default(1).describe("Threads of one tensor operation on the CPU."),
    args: z
      .array(text(4096))
      .max(100)
      .optional()
      .describe('More options of the engine, such as ["--max-num-seqs", "512"].'),
  })
  .prefault({});

const model = z.object({
  path: z
    .string()
    .min(2)
    .max(1024)
    .meta(ABSOLUTE)
    .describe("Folder in Hugging Face layout that engines start with, below the volume's mount path."),
  init: z
    .object({ preset: z.enum(["tiny", "small", "llama-135m"]), seed: z.int().min(0).default(0) })
    .optional()
    .describe("Made when the folder is not there. Absent: an engine without it does not start."),
});

const labels = z.record(z.string(), z.string()).optional();
const named = passedOn().meta({ required: ["name"] });
/** Parts of a pod, as Kubernetes has them; they are passed on as they are. */
const template = z
  .object({
    labels,
    annotations: labels,
    image: name(1024),
    proxyImage: name(1024)
      .optional()
      .describe("vllm only: the inference-gateway image, whose proxy guards the engine."),
    imagePullPolicy: z.enum(["Always", "IfNotPresent", "Never"]).default("IfNotPresent"),
    imagePullSecrets: z
      .array(z.object({ name: z.string().optional() }))
      .max(20)
      .optional(),
    resources: passedOn().optional(),
    proxyResources: passedOn().optional(),
    nodeSelector: labels,
    tolerations: z.array(passedOn()).max(50).optional(),
    affinity: passedOn().optional(),
    topologySpreadConstraints: z.array(passedOn()).max(20).optional(),
    runtimeClassName: text(253).optional(),
    priorityClassName: text(253).optional(),
    schedulerName: text(253).optional(),
    serviceAccountName: text(253).optional(),
    terminationGracePeriodSeconds: z.int().min(0).max(3600).default(15),
    securityContext: passedOn().optional().describe("Of the pod. Absent: user 10001, no privileges."),
    env: z.array(named).max(200).optional(),
    volumes: z.array(named).max(50).optional(),
    volumeMounts: z
      .array(passedOn().meta({ required: ["name", "mountPath"] }))
      .max(50)
      .optional()
      .describe("Of the engine and its proxy."),
  })
  .describe("What the pods are made from. A change makes them anew, one at a time.");

const spec = z
  .object({
    replicas: asContract(ScaleFleetRequestSchema.field.replicas)
      .default(1)
      .describe("Engines wanted. 0 frees all; calls then wait."),
    nodesPerReplica: int32(1, 64)
      .default(1)
      .describe("Pods of one engine. More than one needs LeaderWorkerSet on the cluster."),
    onDemand: z
      .boolean()
      .default(false)
      .describe("Engines are there only while a job may run, and with Kueue where its pod set `engines` is."),
    engine,
    model,
    modelVolume: z
      .object({
        claimName: name(),
        mountPath: text(1024).meta(ABSOLUTE).default("/data"),
      })
      .optional()
      .describe("Where models and trained weights lie; engines mount it read-only. Absent: template.volumes has it."),
    drainSeconds: int32(0, 3600)
      .default(30)
      .describe("How long running calls may take to end when an engine leaves. The rest goes on elsewhere."),
    updateTimeoutSeconds: int32(1, 86_400)
      .default(120)
      .describe("An engine that is not at the wanted version for so long counts as Stale, and its pod as not ready."),
    template,
  })
  .meta(
    rules(
      {
        rule: "self.nodesPerReplica == 1 || self.engine.profile == 'vllm'",
        message: "only the vllm profile runs one replica on several nodes",
        fieldPath: ".nodesPerReplica",
      },
      {
        rule: "self.engine.profile != 'vllm' || has(self.template.proxyImage)",
        message: "the vllm profile needs the image of the proxy before the engine (inference-gateway)",
        fieldPath: ".template",
      },
      {
        rule: "self.nodesPerReplica == oldSelf.nodesPerReplica",
        message: "cannot be changed: make another fleet",
        fieldPath: ".nodesPerReplica",
      },
    ),
  );

/** What has a default is always there: the API server fills it in. */
export type FleetSpec = z.output<typeof spec>;
export type FleetTemplate = FleetSpec["template"];

const replica = z.object({
  name: z.string(),
  url: z.string().optional(),
  state: z.enum(["Serving", "Paused", "Updating", "Stale", "Down"]),
  policy: z.string().optional(),
  policyVersion: int64().optional(),
  reason: z.string().optional().describe("Why it is not Serving."),
});
/** One line of `status.engines`. */
export type ReplicaStatus = Readonly<z.output<typeof replica>>;
export type ReplicaState = ReplicaStatus["state"];

const count = int32(-2_147_483_648, 2_147_483_647);
const status = z.object({
  observedGeneration: int64().optional(),
  replicas: count.optional().describe("Pods that are there."),
  readyReplicas: count.optional(),
  updatedReplicas: count.optional().describe("Of the present template."),
  selector: z.string().optional(),
  ready: z.string().optional().describe('"1/2"'),
  state: z.string().optional(),
  message: z.string().optional(),
  policy: z.string().optional(),
  policyVersion: int64().optional(),
  engines: z.array(replica).optional().meta(listBy("name")),
  conditions: conditions(CONDITION_TYPES, REASONS).optional(),
});
export type FleetStatus = z.output<typeof status>;
export type FleetCondition = NonNullable<FleetStatus["conditions"]>[number];

export const INFERENCE_FLEET: CustomResource = {
  kind: "InferenceFleet",
  plural: "inferencefleets",
  shortName: "inf",
  description:
    "Engines that sample, each on a pod, or on several nodes. The controller makes them known to the gateway.",
  maxNameLength: 40,
  isScaled: true,
  columns: [
    { name: "Ready", type: "string", jsonPath: ".status.ready", description: "Replicas ready of those wanted." },
    { name: "State", type: "string", jsonPath: ".status.state" },
    { name: "Policy", type: "string", jsonPath: ".status.policy", description: "The jobs whose weights are served." },
    {
      name: "Version",
      type: "integer",
      jsonPath: ".status.policyVersion",
      description: "The oldest version that is served.",
    },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Profile", type: "string", jsonPath: ".spec.engine.profile", priority: 1 },
    { name: "Model", type: "string", jsonPath: ".spec.model.path", priority: 1 },
    { name: "Message", type: "string", jsonPath: ".status.message", priority: 1 },
  ],
  spec,
  status,
};

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
