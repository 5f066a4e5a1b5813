// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { openKv, type OpenKvOptions, type TypedKv } from "../kv.ts";
import { JOBS_BUCKET } from "../topology.ts";
import { upgradeRecord } from "./former-record.ts";

/** Jobs by name. Records that a former version wrote are read as today's. */
export function openJobs(connection: NatsConnection, options: OpenKvOptions = {}): Promise<TypedKv<typeof JobSchema>> {
  return openKv(connection, JOBS_BUCKET, JobSchema, { ...options, upgrade: upgradeRecord });
}
