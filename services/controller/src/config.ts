// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

const port = z.coerce.number().int().min(0).max(65_535);

/** Settings of the controller, from WHETSTONE_* variables. */
export const ConfigSchema = z.strictObject({
  host: z.string().default("127.0.0.1"),
  grpcPort: port.default(0),
  metricsPort: port.default(0),
  natsUrl: z.string().default("nats://127.0.0.1:4222"),
  /** Credentials file of a NATS server that is not ours. */
  natsCredentials: z.string().optional(),
  /** Authorities of that server's certificate. Default, with a `tls://` URL: those of tlsPath. */
  natsCa: z.string().optional(),
  /** URLs of the monitoring ports of NATS's servers, with commas between: they tell when one refuses writes, and why. */
  natsMonitors: z
    .string()
    .default("")
    .transform((text) => text.split(",").filter(Boolean)),
  /** Copies of every stream and bucket: 1, or 3 on a cluster of NATS servers. */
  streamReplicas: z.coerce.number().int().min(1).max(5).default(1),
  /** host:port of the gateway's FleetService. */
  fleetAddress: z.string(),
  trainerAddress: z.string(),
  /** EnvironmentService of the one env-runner there is. Absent, on Kubernetes: EnvironmentPools. */
  envAddress: z.string().optional(),
  orchestratorAddress: z.string(),
  /** Folder for runs: weights and checkpoints. Trainer and engines see it under the same path. */
  dataPath: z.string(),
  /** Folder with ca.crt, tls.crt and tls.key: every connection is then encrypted, and both ends prove their roles. */
  tlsPath: z.string().optional(),
  /** Answers gRPC health in plain text, for probes; 0: off. */
  healthPort: port.default(0),
  /** Certificates that this controller makes and renews, JSON: see operator/certificates/plan.ts. */
  certificates: z.string().optional(),
  /** Run on Kubernetes: leader election, and the objects of whetstone.dev. In a pod, or with KUBECONFIG. */
  kube: z.stringbool().default(false),
  /** Default: of the pod, or of the kubeconfig's context. */
  kubeNamespace: z.string().optional(),
  /** Fleets and trainer of the chart are there only while a job needs them: jobs wait for them. */
  onDemand: z.stringbool().default(false),
  /** Name of the Lease that the replicas elect their leader by. */
  lease: z.string().default("whetstone-controller"),
  logLevel: z.enum(["trace", "debug", "info", "warn", "error"]).default("info"),
  supervised: z.string().default("0"),
  /** Bounds of the JetStream streams of one job. */
  maxTasks: z.coerce.number().int().min(1).default(65_536),
  maxEpisodeBytes: z.coerce
    .number()
    .int()
    .min(1)
    .default(16 * 2 ** 30),
});

export type Config = z.infer<typeof ConfigSchema>;
