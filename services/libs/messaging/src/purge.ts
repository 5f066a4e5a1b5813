// SPDX-License-Identifier: Apache-2.0
import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { API, apiCode, natsError } from "./nats-errors.ts";
import { taskStream } from "./topology.ts";

/** Drops every task of a job that is queued or in flight; what is sealed stays. Safe to repeat. */
export async function purgeTasks(connection: NatsConnection, job: string): Promise<void> {
  const manager = await jetstreamManager(connection, { checkAPI: false });
  await manager.streams.purge(taskStream(job)).catch((error: unknown) => {
    if (apiCode(error) !== API.streamNotFound) throw natsError(error, `purge ${taskStream(job)}`);
  });
}
