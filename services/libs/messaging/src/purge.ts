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

/** Tasks of a job that are queued or in flight; 0 where the job has no stream. */
export async function tasksLeft(connection: NatsConnection, job: string): Promise<number> {
  const manager = await jetstreamManager(connection, { checkAPI: false });
  try {
    return (await manager.streams.info(taskStream(job))).state.messages;
  } catch (error) {
    if (apiCode(error) === API.streamNotFound) return 0;
    throw natsError(error, `look at ${taskStream(job)}`);
  }
}
