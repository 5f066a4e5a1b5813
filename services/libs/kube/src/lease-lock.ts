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
  /** @throws ALREADY_EXISTS */
  create(record: LeaseRecord, call: LockCall): Promise<HeldRecord>;
  /** Changes exactly that version, and of it nothing but what a Lease says: labels are its maker's. @throws CONFLICT, NOT_FOUND */
  change(record: LeaseRecord, version: string, call: LockCall): Promise<HeldRecord>;
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
    async create(record, call) {
      const metadata = { name, namespace: kube.namespace };
      return recordOf(await kube.create(LEASES, { metadata, spec: specOf(record) }, call));
    },
    async change(record, version, call) {
      return recordOf(await kube.patch(LEASES, name, changeOf(record, version), call));
    },
  };
}

/** A merge patch. */
function changeOf(record: LeaseRecord, version: string): object {
  return { metadata: { resourceVersion: version }, spec: specOf(record) };
}

function specOf(record: LeaseRecord): NonNullable<Lease["spec"]> {
  return {
    holderIdentity: record.holder,
    leaseDurationSeconds: Math.max(1, Math.round(record.durationMs / 1000)),
    acquireTime: record.acquireTime,
    renewTime: record.renewTime,
    leaseTransitions: record.transitions,
  };
}

function recordOf({ metadata, spec }: Stored<Lease>): HeldRecord {
  return {
    holder: spec?.holderIdentity ?? "",
    durationMs: (spec?.leaseDurationSeconds ?? 0) * 1000,
    renewTime: String(spec?.renewTime ?? ""),
    acquireTime: String(spec?.acquireTime ?? ""),
    transitions: spec?.leaseTransitions ?? 0,
    version: metadata.resourceVersion,
  };
}
