// SPDX-License-Identifier: Apache-2.0
import type { DescMessage } from "@bufbuild/protobuf";
import { exponentialBackoff, retry, WhetstoneError } from "@whetstone/core";
import { type Nats, openKv, type TypedKv } from "@whetstone/messaging";

/** About ten minutes with this back-off (I8): a cluster that elects or a node that is replaced takes less. */
const ATTEMPTS = 250;
const BACKOFF = exponentialBackoff({ initialMs: 200, maxMs: 5000 });

/**
 * A bucket whose calls outlast an outage of NATS: a job must not fail because its books could not be written for a minute.
 * A call whose answer was lost may have taken effect; callers treat ALREADY_EXISTS and CONFLICT accordingly.
 */
export async function openPatientKv<D extends DescMessage>(nats: Nats, bucket: string, schema: D): Promise<TypedKv<D>> {
  return patientKv(await openKv(nats, bucket, schema));
}

/** The same of one that is open. */
export function patientKv<D extends DescMessage>(kv: TypedKv<D>): TypedKv<D> {
  return {
    get: (...args) => patiently(() => kv.get(...args)),
    getBytes: (...args) => patiently(() => kv.getBytes(...args)),
    create: (...args) => patiently(() => kv.create(...args)),
    createBytes: (...args) => patiently(() => kv.createBytes(...args)),
    update: (...args) => patiently(() => kv.update(...args)),
    put: (...args) => patiently(() => kv.put(...args)),
    delete: (...args) => patiently(() => kv.delete(...args)),
    keys: (...args) => patiently(() => kv.keys(...args)),
    revisions: (...args) => patiently(() => kv.revisions(...args)),
    watch: (prefix, signal) => kv.watch(prefix, signal),
  };
}

function patiently<T>(call: () => Promise<T>): Promise<T> {
  return retry(call, { attempts: ATTEMPTS, backoff: BACKOFF, isRetryable: isOutage });
}

export function isOutage(error: unknown): boolean {
  const { code } = WhetstoneError.from(error);
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
}
