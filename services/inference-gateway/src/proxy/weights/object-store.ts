// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";
import type { S3Client } from "@aws-sdk/client-s3";
import { openClient, parseLocation, type StoreLocation } from "@whetstone/objects";
import { broken } from "./manifest.ts";
import { type Answer, type Origin, QUIET_MS } from "./origin.ts";

/** Statuses that do not change by asking again. */
const NO: ReadonlySet<number> = new Set([400, 401, 403, 404, 416]);

/** A version in an object store that speaks S3. */
export class StoreOrigin implements Origin {
  readonly url: string;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  private constructor(url: string, client: S3Client) {
    const { bucket, prefix } = parseLocation(url);
    this.url = url;
    this.#client = client;
    this.#bucket = bucket;
    this.#prefix = prefix;
  }

  /** @throws WhetstoneError INVALID_ARGUMENT for a version that is not in this store */
  static async at(url: string, store: StoreLocation): Promise<StoreOrigin> {
    if (!url.startsWith(`${store.url}/`))
      throw broken(`stream.url: ${url} is not in the object store of this engine, ${store.url}`);
    return new StoreOrigin(url, await openClient(store, { quietMs: QUIET_MS }));
  }

  async open(file: string, begin: number, end: number, signal: AbortSignal): Promise<Answer> {
    const { GetObjectCommand } = await import("@aws-sdk/client-s3");
    const place = { Bucket: this.#bucket, Key: `${this.#prefix}/${file}`, Range: `bytes=${begin}-${end - 1}` };
    const answer = await this.#client
      .send(new GetObjectCommand(place), { abortSignal: signal })
      .catch((error: unknown) => {
        const { name, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } };
        if (!NO.has($metadata?.httpStatusCode ?? 0)) throw error;
        throw broken(`${file}: ${this.url} answered ${$metadata?.httpStatusCode} ${name}`, error);
      });
    return { body: answer.Body as Readable, total: Number(answer.ContentRange?.split("/")[1]) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#client.destroy();
    return Promise.resolve();
  }
}
