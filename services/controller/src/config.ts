// SPDX-License-Identifier: Apache-2.0
import { NATS_SETTINGS, OBJECT_STORE_SETTINGS, POOL_SETTINGS, portSetting, SERVICE_SETTINGS } from "@whetstone/core";
import { z } from "zod";

/** Settings of the controller, from WHETSTONE_* variables. */
export const ConfigSchema = z.strictObject({
  ...SERVICE_SETTINGS,
  ...NATS_SETTINGS,
  ...POOL_SETTINGS,
  /** To read and delete bodies of episodes that are in the store; weights and checkpoints there are the trainer's. */
  ...OBJECT_STORE_SETTINGS,
  grpcPort: portSetting(),
  /** URLs of the monitoring ports of NATS's servers, with commas between: they tell when one refuses writes, and why. */
  natsMonitors: z.array(z.string()).default([]),
  /** Copies of every stream and bucket: 1, or 3 on a cluster of NATS servers. */
  streamReplicas: z.number().int().min(1).max(5).default(1),
  /** FleetService of the gateway's replicas, "host:port" with commas between; a host stands for all of its addresses. */
  fleetAddress: z.array(z.string().regex(/:\d+$/, 'must be "host:port"')).min(1),
  /** TrainerService of each trainer, "host:port" with commas between: so many jobs train at once. */
  trainerAddress: z.array(z.string().min(1)).min(1),
  /** EnvironmentService of the default pool's one env-runner. Absent, on Kubernetes: EnvironmentPools. */
  envAddress: z.string().optional(),
  /** Where clients of served policies find the gateway: its port for agents. Absent: nobody can be told. */
  agentsUrl: z.url({ protocol: /^https?$/ }).optional(),
  orchestratorAddress: z.string(),
  /** Folder for artifacts, and for runs: weights and checkpoints. Trainer and engines see it under the same path. */
  dataPath: z.string(),
  /** False: they do not, and have folders of their own. Jobs then name artifacts and use the object store. */
  sharedData: z.boolean().default(true),
  /** Certificates that this controller makes and renews, JSON: see operator/certificates/plan.ts. */
  certificates: z.string().optional(),
  /** Run on Kubernetes: leader election, and the objects of whetstone.dev. In a pod, or with KUBECONFIG. */
  kube: z.boolean().default(false),
  /** Default: of the pod, or of the kubeconfig's context. */
  kubeNamespace: z.string().optional(),
  /** Fleets and trainer of the chart are there only while a job needs them: jobs wait for them. */
  onDemand: z.boolean().default(false),
  /** Image with the daemon of sandboxes. Absent: there are no sandbox pools. */
  sandboxImage: z.string().min(1).optional(),
  /** Name of the Lease that the replicas elect their leader by. */
  lease: z.string().default("whetstone-controller"),
  /** Bounds of the JetStream streams of one job. */
  maxTasks: z.number().int().min(1).default(65_536),
  maxEpisodeBytes: z
    .number()
    .int()
    .min(1)
    .default(16 * 2 ** 30),
});

export type Config = z.infer<typeof ConfigSchema>;
