// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import type { Kube } from "@whetstone/kube";
import type { BundleStore, Nats, TypedStreams } from "@whetstone/messaging";
import type { ModuleCode } from "@whetstone/modules/code";
import type { Job, JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";
import type { Logger, Metrics } from "@whetstone/telemetry";
import type { TlsIdentity } from "@whetstone/tls";
import type { FleetClient } from "../adapters/fenced-fleet.ts";
import type { EngineFleet } from "../adapters/fleet.ts";
import type { InstallationNotices } from "../adapters/installation-notices.ts";
import type { NatsWatch } from "../adapters/nats-watch.ts";
import type { JobRecords } from "../adapters/job-records.ts";
import type { JobStore } from "../adapters/job-store.ts";
import type { Lead } from "../adapters/lead.ts";
import type { Config } from "../config.ts";
import type { Violation } from "../domain/validate-job.ts";

/** What reconcilers work with, while this replica leads. */
export interface OperatorParts {
  /** Calls that change something are refused once this replica leads no longer. */
  readonly kube: Kube;
  readonly lead: Lead;
  readonly config: Config;
  readonly nats: Nats;
  readonly streams: TypedStreams;
  readonly store: JobStore;
  /** Every job's record, as far as it is known here. */
  readonly jobs: () => Promise<Job[]>;
  readonly records: JobRecords;
  readonly bundles: BundleStore;
  readonly fleet: EngineFleet;
  readonly fleetClient: FleetClient;
  readonly trainerClient: RpcClient<typeof TrainerService>;
  /** What of a job can only be judged by looking (I11). */
  readonly checkWorld: (spec: JobSpec, module: ModuleCode | undefined) => Promise<Violation[]>;
  readonly tls: TlsIdentity | undefined;
  readonly notices: InstallationNotices;
  /** Whether NATS takes writes. */
  readonly natsWatch: Pick<NatsWatch, "refusal" | "onChange">;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Starts one kind's reflectors and reconciler; what it returns is disposed when the lead ends. */
export type StartReconciler = (parts: OperatorParts, signal: AbortSignal) => Promise<AsyncDisposable>;

/** One line each; loaded with the client library, only where there is a cluster. */
const RECONCILERS: readonly StartReconciler[] = [
  async (...parts) => (await import("./certificates.ts")).startCertificates(...parts),
  async (...parts) => (await import("./inference-fleet.ts")).startInferenceFleets(...parts),
  async (...parts) => (await import("./trainer-on-demand.ts")).startTrainerOnDemand(...parts),
  async (...parts) => (await import("./environment-pool.ts")).startEnvironmentPools(...parts),
  async (...parts) => (await import("./training-job.ts")).startTrainingJobs(...parts),
];

/** Reconciles until the signal aborts; rejects when a reconciler cannot start. */
export async function startOperator(
  parts: OperatorParts,
  signal: AbortSignal,
  reconcilers: readonly StartReconciler[] = RECONCILERS,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  for (const start of reconcilers) {
    if (signal.aborted) return;
    stack.use(await start(parts, signal));
  }
  if (!signal.aborted) await once(signal, "abort");
}
