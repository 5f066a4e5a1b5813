// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import type { StoreLocation } from "@whetstone/objects";
import { ObjectBucket } from "../object-bucket.ts";
import { CLAIMS_BUCKET } from "../topology.ts";
import { BucketBodies } from "./bucket-bodies.ts";
import type { Claim } from "./claim.ts";
import { StoredBodies, type StoredSize } from "./stored-bodies.ts";

export interface ClaimStore {
  put(of: BodyOf, body: Uint8Array, signal?: AbortSignal): Promise<Claim>;
  /** From where the claim says that it is. @throws DATA_LOSS, FAILED_PRECONDITION without the store that has it */
  get(claim: Claim, signal?: AbortSignal): Promise<Uint8Array>;
  /** What an object store holds of a job. Bodies in NATS are counted by `jobSize`. */
  sizeInStore(job: string, signal?: AbortSignal): Promise<StoredSize>;
  /** Deletes it, with what no message names. Bodies in NATS are deleted by `deleteJobStreams`. */
  deleteFromStore(job: string, signal?: AbortSignal): Promise<void>;
}

export interface BodyOf {
  readonly job: string;
  /** A sealed episode. Anything else stays in NATS: a task that cannot be read when it is delivered costs a delivery. */
  readonly isEpisode: boolean;
}

export interface ClaimOptions {
  /** Absent: this process has none, and reads bodies that are in NATS only. */
  readonly store?: StoreLocation | undefined;
  /** Puts bodies of episodes into the store, and not into NATS. */
  readonly storeEpisodes?: boolean | undefined;
}

export function openClaimStore(
  connection: NatsConnection,
  { store, storeEpisodes = false }: ClaimOptions = {},
): ClaimStore {
  const bucket = new ObjectBucket(connection, CLAIMS_BUCKET);
  const inBucket = new BucketBodies(bucket);
  const stored = new StoredBodies(connection, bucket, store);
  return {
    put: ({ job, isEpisode }, body, signal) => (storeEpisodes && isEpisode ? stored : inBucket).put(job, body, signal),
    get: (claim, signal) => (claim.store === undefined ? inBucket : stored).get(claim, signal),
    sizeInStore: (job, signal) => stored.sizeOf(job, signal),
    deleteFromStore: (job, signal) => stored.deleteAll(job, signal),
  };
}
