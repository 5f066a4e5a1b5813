// SPDX-License-Identifier: Apache-2.0
import type { Kube } from "@whetstone/kube";
import type { BundleStore, Nats, TypedStreams } from "@whetstone/messaging";
import type { ModuleCode } from "@whetstone/modules/code";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";
import type { Logger, Metrics } from "@whetstone/telemetry";
import type { TlsIdentity } from "@whetstone/tls";
import type { Gateways } from "../fleet/gateways/every-gateway.ts";
import type { EngineFleet } from "../fleet/engine-fleet.ts";
import type { InstallationNotices } from "./installation-notices.ts";
import type { NatsWatch } from "../nats/nats-watch.ts";
import type { JobRecords } from "../jobs/service/job-records.ts";
import type { JobMirror } from "../jobs/job-mirror.ts";
import type { JobStore } from "../jobs/job-store.ts";
import type { StoredRuns } from "../jobs/stored-runs.ts";
import type { Lead } from "../leading/lead.ts";
import type { Config } from "../config.ts";
import type { Violation } from "../jobs/validation/validate-job.ts";

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
  readonly jobs: JobMirror;
  readonly records: JobRecords;
  readonly storedRuns: StoredRuns;
  readonly bundles: BundleStore;
  readonly fleet: EngineFleet;
  readonly fleetClient: Gateways;
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
