// SPDX-License-Identifier: Apache-2.0
import type { ObjectBucket } from "../object-bucket.ts";
import { type Claim, sha256Hex, verified } from "./claim.ts";

/** Bodies in NATS' own bucket. */
export class BucketBodies {
  readonly #bucket: ObjectBucket;

  constructor(bucket: ObjectBucket) {
    this.#bucket = bucket;
  }

  async put(job: string, body: Uint8Array, signal?: AbortSignal): Promise<Claim> {
    const sha256 = sha256Hex(body);
    const name = `${job}/${sha256}`;
    await this.#bucket.use(`put claim ${name}`, (bucket) => bucket.putBlob({ name }, body), signal);
    return { name, sha256, size: body.length };
  }

  async get(claim: Claim, signal?: AbortSignal): Promise<Uint8Array> {
    const { name } = claim;
    return verified(claim, await this.#bucket.use(`get claim ${name}`, (bucket) => bucket.getBlob(name), signal));
  }
}
