// SPDX-License-Identifier: Apache-2.0
import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { WhetstoneError } from "@whetstone/core";
import { ObjectStore, type StoreLocation } from "@whetstone/objects";
import type { ObjectBucket } from "../object-bucket.ts";
import { CLAIMS_BUCKET } from "../topology.ts";
import { type Claim, sha256Hex, verified } from "./claim.ts";
import { TroubleTeller } from "./store-troubles.ts";
import { foldersOf, forgetFolder, noteFolder, type StoredFolder } from "./stored-folders.ts";

export interface StoredSize {
  readonly objects: number;
  readonly bytes: number;
}

/** Bodies of episodes in an object store that speaks S3, below "episodes/<installation>/<job>/". */
export class StoredBodies {
  readonly #connection: NatsConnection;
  readonly #bucket: ObjectBucket;
  readonly #store: ObjectStore | undefined;
  readonly #troubles: TroubleTeller;
  #installation: Promise<string> | undefined;

  /** @param location  undefined: this process has no store, and says so when it is to use one */
  constructor(connection: NatsConnection, bucket: ObjectBucket, location: StoreLocation | undefined) {
    this.#connection = connection;
    this.#bucket = bucket;
    this.#store = location && new ObjectStore(location);
    this.#troubles = new TroubleTeller(connection);
  }

  /** @throws RESOURCE_EXHAUSTED while the store is full, UNAVAILABLE while it fails: to be repeated later */
  async put(job: string, body: Uint8Array, signal?: AbortSignal): Promise<Claim> {
    const store = this.#storeFor(undefined, `bodies of ${job}`);
    const folder = `episodes/${await this.#installationId()}/${job}`;
    await noteFolder(this.#bucket, job, { store: store.url, folder });
    const sha256 = sha256Hex(body);
    const name = `${folder}/${sha256}`;
    await this.#troubles.during(`${store.url}/${name}`, () => store.put(name, body, signal));
    return { name, sha256, size: body.length, store: store.url };
  }

  async get(claim: Claim, signal?: AbortSignal): Promise<Uint8Array> {
    const store = this.#storeFor(claim.store, claim.name);
    return verified(claim, await store.read(claim.name, signal));
  }

  async sizeOf(job: string, signal?: AbortSignal): Promise<StoredSize> {
    let [objects, bytes] = [0, 0];
    for (const one of await foldersOf(this.#bucket, job)) {
      for await (const page of this.#storeOf(one).list(one.folder, signal)) {
        objects += page.length;
        bytes += page.reduce((sum, { size }) => sum + size, 0);
      }
    }
    return { objects, bytes };
  }

  /** What tells of a folder goes once it is empty: whoever comes after a failure finds what is left. */
  async deleteAll(job: string, signal?: AbortSignal): Promise<void> {
    for (const one of await foldersOf(this.#bucket, job)) {
      const store = this.#storeOf(one);
      for await (const page of store.list(one.folder, signal)) {
        await store.delete(
          page.map(({ name }) => name),
          signal,
        );
      }
      await forgetFolder(this.#bucket, job, one);
    }
  }

  #storeOf({ store, folder }: StoredFolder): ObjectStore {
    return this.#storeFor(store, folder);
  }

  /** @param url  where the body is; undefined: wherever this process puts new ones */
  #storeFor(url: string | undefined, name: string): ObjectStore {
    const own = this.#store?.url;
    if (this.#store && (url === undefined || url === own)) return this.#store;
    const where = `${url ?? "s3://…"}/${name}`;
    const has = own === undefined ? "has no object store" : `has ${own}`;
    throw new WhetstoneError(
      "FAILED_PRECONDITION",
      `${where} is in an object store, and this process ${has}: set WHETSTONE_OBJECT_STORE to ${url ?? "it"} ` +
        "(`whet up --object-store`; on Kubernetes objectStore.url and objectStore.episodes), with the keys of the store",
      { context: { object: where } },
    );
  }

  /**
   * Tells the objects of this installation from those of another one that has the same prefix, and jobs of the same names:
   * the moment at which its bucket was made.
   */
  #installationId(): Promise<string> {
    this.#installation ??= bucketCreated(this.#connection).catch((error: unknown) => {
      this.#installation = undefined;
      throw error;
    });
    return this.#installation;
  }
}

/** "2026-11-25T10:11:12.123456789Z" as a name of a folder. */
async function bucketCreated(connection: NatsConnection): Promise<string> {
  const manager = await jetstreamManager(connection, { checkAPI: false });
  const { created } = await manager.streams.info(`OBJ_${CLAIMS_BUCKET}`);
  return created.replaceAll(/[^0-9A-Za-z]/g, "-");
}
