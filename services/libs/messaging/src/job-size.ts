// SPDX-License-Identifier: Apache-2.0
import { jetstreamManager, type StreamState } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { Objm } from "@nats-io/obj";
import { API, apiCode, natsError } from "./nats-errors.ts";
import { CLAIMS_BUCKET, episodeStream, taskStream } from "./topology.ts";

export interface JobSize {
  /** Sealed ones. */
  readonly episodes: number;
  /** Of the job's streams, and of bodies that were too large for them. */
  readonly bytes: number;
}

/** What `deleteJobStreams` would free. */
export async function jobSize(connection: NatsConnection, job: string): Promise<JobSize> {
  const manager = await jetstreamManager(connection, { checkAPI: false });
  const stateOf = (name: string): Promise<StreamState | undefined> =>
    unlessAbsent(
      manager.streams.info(name).then(({ state }) => state),
      `look at stream ${name}`,
    );
  const [episodes, tasks] = [await stateOf(episodeStream(job)), await stateOf(taskStream(job))];
  const claims = (await unlessAbsent(claimBytes(connection, `${job}/`), `look at claims of ${job}`)) ?? 0;
  return { episodes: episodes?.messages ?? 0, bytes: (episodes?.bytes ?? 0) + (tasks?.bytes ?? 0) + claims };
}

async function claimBytes(connection: NatsConnection, prefix: string): Promise<number> {
  const store = await new Objm(connection).open(CLAIMS_BUCKET);
  const own = (await store.list()).filter(({ name }) => name.startsWith(prefix));
  return own.reduce((sum, { size }) => sum + size, 0);
}

async function unlessAbsent<T>(work: Promise<T>, what: string): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (apiCode(error) === API.streamNotFound) return undefined;
    throw natsError(error, what);
  }
}
