// SPDX-License-Identifier: Apache-2.0
import { jetstreamManager, type JetStreamManager, type PurgeOpts } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { Objm } from "@nats-io/obj";
import { jobId } from "@whetstone/core";
import { isStoredFolder } from "./claims/stored-folders.ts";
import { API, apiCode, natsError } from "./nats-errors.ts";
import { ADVISORY_STREAM, CLAIMS_BUCKET, episodeStream, EVENT_STREAM, taskStream } from "./topology.ts";

/**
 * Removes the job's streams, their consumers, the job's claims, and what the streams of all jobs hold of it: events and
 * notices. A later job of the same name begins without them. Safe to repeat. What an object store holds of the job is not
 * touched, and neither is what tells of it: `ClaimStore.deleteFromStore` comes first.
 */
export async function deleteJobStreams(connection: NatsConnection, job: string): Promise<void> {
  const manager = await jetstreamManager(connection, { checkAPI: false });
  const own = [taskStream(job), episodeStream(job)];
  for (const name of own) await unlessGone(manager.streams.delete(name), `delete stream ${name}`);
  await purge(manager, EVENT_STREAM, `ws.${jobId(job)}.event.>`);
  for (const name of own)
    for (const notice of ["MAX_DELIVERIES", "MSG_TERMINATED"])
      await purge(manager, ADVISORY_STREAM, `$JS.EVENT.ADVISORY.CONSUMER.${notice}.${name}.>`);
  await deleteClaims(connection, `${job}/`);
}

async function purge(manager: JetStreamManager, stream: string, filter: string): Promise<void> {
  const options: PurgeOpts = { filter };
  await unlessGone(manager.streams.purge(stream, options), `purge ${filter} in ${stream}`);
}

async function deleteClaims(connection: NatsConnection, prefix: string): Promise<void> {
  const work = async (): Promise<void> => {
    const store = await new Objm(connection).open(CLAIMS_BUCKET);
    for (const { name } of await store.list()) {
      if (name.startsWith(prefix) && !isStoredFolder(name)) await store.delete(name);
    }
  };
  await unlessGone(work(), `delete claims ${prefix}`);
}

async function unlessGone(work: Promise<unknown>, what: string): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (apiCode(error) !== API.streamNotFound) throw natsError(error, what);
  }
}
