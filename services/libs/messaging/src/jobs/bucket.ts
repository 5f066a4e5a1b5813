// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { type Job, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { type KvChange, openKv, type OpenKvOptions, type TypedKv } from "../kv.ts";
import { JOBS_BUCKET } from "../topology.ts";
import { upgradeRecord } from "./former-record.ts";

/** Jobs by name. Records that a former version wrote are read as today's. */
export async function openJobs(
  connection: NatsConnection,
  options: OpenKvOptions = {},
): Promise<TypedKv<typeof JobSchema>> {
  const kv = await openKv(connection, JOBS_BUCKET, JobSchema, options);
  return {
    ...kv,
    async get(...args) {
      const record = await kv.get(...args);
      return record && { ...record, value: upgradeRecord(record.value) };
    },
    watch: (...args) => upgraded(kv.watch(...args)),
  };
}

async function* upgraded(changes: AsyncIterable<KvChange<Job>>): AsyncGenerator<KvChange<Job>> {
  for await (const change of changes) {
    yield change.kind === "put" ? { ...change, value: upgradeRecord(change.value) } : change;
  }
}
