// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Kube, Leadership } from "@whetstone/kube";
import type { Nats } from "@whetstone/messaging";
import type { Logger, Metrics } from "@whetstone/telemetry";
import type { Lead } from "./lead.ts";
import type { Config } from "../config.ts";

export interface LeaderParts {
  readonly config: Config;
  readonly nats: Nats;
  readonly lead: Lead;
  readonly logger: Logger;
  /** Absent: this controller is the only one. */
  readonly kube: Kube | undefined;
}

/** What the leader does, until the signal aborts. `kube` refuses changes once it leads no longer. */
export type LeaderWork = (signal: AbortSignal, kube: Kube | undefined) => Promise<void>;

/**
 * Does the leader's work: at once without Kubernetes, else whenever this replica is elected. Rejects with STALE_EPOCH when
 * another one has taken over; the process has to end then.
 */
export async function runAsLeader(parts: LeaderParts, work: LeaderWork, signal: AbortSignal): Promise<void> {
  const { kube, nats, lead, logger, config } = parts;
  const identity = `${hostname()}_${process.pid}_${randomBytes(3).toString("hex")}`;
  if (!kube) {
    await lead.take(nats, identity);
    return await work(signal, undefined);
  }
  const { elect } = await import("@whetstone/kube");
  const onLead = async (leadership: Leadership): Promise<void> => {
    const assert = (): void => leadership.assert();
    const epoch = await lead.take(nats, identity, assert);
    logger.info("leader_epoch_taken", { identity, epoch: String(epoch) });
    using guarded = kube.separate({ guard: assert });
    await work(leadership.signal, guarded);
  };
  await elect({ kube, lease: config.lease, identity, onLead, signal, logger });
}

/** The client library costs 80 MiB and is loaded only where it is used. */
export async function openCluster(config: Config, logger: Logger, metrics: Metrics): Promise<Kube | undefined> {
  if (!config.kube) return undefined;
  const { openKube } = await import("@whetstone/kube");
  return openKube({ logger, metrics, namespace: config.kubeNamespace });
}
