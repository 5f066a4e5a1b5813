// SPDX-License-Identifier: Apache-2.0
import { addAbortSignal, type Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type * as Sdk from "@aws-sdk/client-s3";
import { abortReason, Deadline, exponentialBackoff, retry } from "@whetstone/core";
import { openClient } from "./client.ts";
import { parseLocation, type StoreLocation } from "./location.ts";
import { isAbsent, isPassing, storeError } from "./store-error.ts";

export interface StoredObject {
  readonly name: string;
  readonly size: number;
}

/** Without a byte for so long a connection counts as broken. */
const QUIET_MS = 30_000;
/** Of one call, its repetitions included. */
const CALL_MS = 120_000;
const ATTEMPTS = 3;
/** A job has as many objects as large episodes, and each goes by a request of its own: not every store takes several in one. */
const DELETES_AT_ONCE = 16;

/**
 * Objects of up to some 100 MB below one prefix of a bucket; names are relative to it. Nobody is asked before the first call.
 * What fails is RESOURCE_EXHAUSTED where there is no space, else UNAVAILABLE, both to be repeated later, with the object's
 * URL and the store's words.
 */
export class ObjectStore implements AsyncDisposable {
  /** "s3://bucket/prefix" */
  readonly url: string;
  readonly #location: StoreLocation;
  readonly #bucket: string;
  readonly #prefix: string;
  #client: Promise<Sdk.S3Client> | undefined;

  constructor(location: StoreLocation) {
    const { bucket, prefix } = parseLocation(location.url);
    this.url = location.url;
    this.#location = location;
    this.#bucket = bucket;
    this.#prefix = prefix === "" ? "" : `${prefix}/`;
  }

  async put(name: string, body: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#ask(name, signal, async (client, { PutObjectCommand }, abortSignal) => {
      await client.send(new PutObjectCommand({ ...this.#place(name), Body: body }), { abortSignal });
    });
  }

  /** Undefined: there is no such object. */
  async read(name: string, signal?: AbortSignal): Promise<Uint8Array | undefined> {
    return await this.#ask(name, signal, async (client, { GetObjectCommand }, abortSignal) => {
      const asked = client.send(new GetObjectCommand(this.#place(name)), { abortSignal });
      const answer = await asked.catch((error: unknown) => {
        if (isAbsent(error)) return undefined;
        throw error;
      });
      return answer && (await buffer(addAbortSignal(abortSignal, answer.Body as Readable)));
    });
  }

  /** Everything below "<folder>/", a page at a time. */
  async *list(folder: string, signal?: AbortSignal): AsyncGenerator<readonly StoredObject[], void, undefined> {
    const asked = { Bucket: this.#bucket, Prefix: `${this.#prefix}${folder}/` };
    let next: string | undefined;
    do {
      const page = await this.#ask(folder, signal, (client, { ListObjectsV2Command }, abortSignal) =>
        client.send(new ListObjectsV2Command({ ...asked, ContinuationToken: next }), { abortSignal }),
      );
      yield (page.Contents ?? []).map(({ Key = "", Size = 0 }) => ({
        name: Key.slice(this.#prefix.length),
        size: Size,
      }));
      next = page.IsTruncated ? page.NextContinuationToken : undefined;
    } while (next !== undefined);
  }

  /** Those that are not there count as deleted. */
  async delete(names: readonly string[], signal?: AbortSignal): Promise<void> {
    const left = [...names];
    const worker = async (): Promise<void> => {
      for (let name = left.pop(); name !== undefined; name = left.pop()) await this.#deleteOne(name, signal);
    };
    await Promise.all(Array.from({ length: Math.min(DELETES_AT_ONCE, names.length) }, worker));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    (await this.#client?.catch(() => undefined))?.destroy();
  }

  #open(): Promise<Sdk.S3Client> {
    this.#client ??= openClient(this.#location, { quietMs: QUIET_MS, attempts: 1 }).catch((error: unknown) => {
      this.#client = undefined;
      throw error;
    });
    return this.#client;
  }

  #place(name: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${name}` };
  }

  async #deleteOne(name: string, signal: AbortSignal | undefined): Promise<void> {
    await this.#ask(name, signal, async (client, { DeleteObjectCommand }, abortSignal) => {
      await client.send(new DeleteObjectCommand(this.#place(name)), { abortSignal });
    });
  }

  async #ask<T>(
    name: string,
    signal: AbortSignal | undefined,
    work: (client: Sdk.S3Client, sdk: typeof Sdk, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    using deadline = Deadline.after(CALL_MS, signal);
    const whole = deadline.signal;
    try {
      const [client, sdk] = await Promise.all([this.#open(), import("@aws-sdk/client-s3")]);
      return await retry(() => work(client, sdk, whole), {
        attempts: ATTEMPTS,
        backoff: exponentialBackoff({ initialMs: 100, maxMs: 1_000 }),
        signal: whole,
        isRetryable: isPassing,
      });
    } catch (error) {
      throw whole.aborted ? abortReason(whole) : storeError(`${this.url}/${name}`, error);
    }
  }
}
