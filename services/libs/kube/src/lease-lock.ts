// SPDX-License-Identifier: Apache-2.0
import type { Kube } from "./kube.ts";
import { type Lease, LEASES, type Stored } from "./objects.ts";

/** What a Lease says, and which version of it said so. */
export interface LeaseRecord {
  /** Empty: nobody's. */
  readonly holder: string;
  readonly durationMs: number;
  /** As written by the holder: only that it changes means anything to others. */
  readonly renewTime: string;
  readonly acquireTime: string;
  readonly transitions: number;
}

export interface HeldRecord extends LeaseRecord {
  readonly version: string;
}

/** One compare-and-set cell. */
export interface LeaseLock {
  read(signal: AbortSignal, timeoutMs: number): Promise<HeldRecord | undefined>;
  /** Creates it without a version, else replaces exactly that version. @throws CONFLICT, ALREADY_EXISTS */
  write(record: LeaseRecord, version: string | undefined, call: LockCall): Promise<HeldRecord>;
}

export interface LockCall {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

/** @param kube  with connections of its own: a lease must not wait behind other calls. */
export function leaseLock(kube: Kube, name: string): LeaseLock {
  return {
    async read(signal, timeoutMs) {
      const lease = await kube.get(LEASES, name, { signal, timeoutMs });
      return lease && recordOf(lease);
    },
    async write(record, version, call) {
      const metadata = { name, namespace: kube.namespace, ...(version !== undefined && { resourceVersion: version }) };
      const lease = { metadata, spec: specOf(record) };
      const write = version === undefined ? kube.create(LEASES, lease, call) : kube.replace(LEASES, lease, call);
      return recordOf(await write);
    },
  };
}

export function specOf(record: LeaseRecord): NonNullable<Lease["spec"]> {
  return {
    holderIdentity: record.holder,
    leaseDurationSeconds: Math.max(1, Math.round(record.durationMs / 1000)),
    acquireTime: record.acquireTime,
    renewTime: record.renewTime,
    leaseTransitions: record.transitions,
  };
}

export function recordOf({ metadata, spec }: Stored<Lease>): HeldRecord {
  return {
    holder: spec?.holderIdentity ?? "",
    durationMs: (spec?.leaseDurationSeconds ?? 0) * 1000,
    renewTime: String(spec?.renewTime ?? ""),
    acquireTime: String(spec?.acquireTime ?? ""),
    transitions: spec?.leaseTransitions ?? 0,
    version: metadata.resourceVersion,
  };
}
