// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { WhetstoneError } from "@whetstone/core";
import { sha256Hex } from "./claims/claim.ts";
import { ObjectBucket } from "./object-bucket.ts";
import { BUNDLES_BUCKET } from "./topology.ts";

// Modules of user code, each under the digest of its text: a bundle never changes, so that writing it twice is harmless.

export interface BundleStore {
  has(digest: string, signal?: AbortSignal): Promise<boolean>;
  /** @returns undefined when it is not there. @throws DATA_LOSS when what is there is not what its name says. */
  get(digest: string, signal?: AbortSignal): Promise<Uint8Array | undefined>;
  /** Create if absent. @throws INVALID_ARGUMENT when the code is not the digest's. */
  put(digest: string, code: Uint8Array, signal?: AbortSignal): Promise<void>;
}

/** The store is opened at the first use; `ensurePlatform` must have made it. */
export function openBundleStore(connection: NatsConnection): BundleStore {
  const store = new ObjectBucket(connection, BUNDLES_BUCKET);
  const has = async (digest: string, signal?: AbortSignal): Promise<boolean> => {
    const found = await store.use(`look for bundle ${digest}`, (bundles) => bundles.info(digest), signal);
    return found !== null && !found.deleted;
  };
  return {
    has,
    async get(digest, signal) {
      const code = await store.use(`get bundle ${digest}`, (bundles) => bundles.getBlob(digest), signal);
      if (code === null) return undefined;
      if (sha256Hex(code) === digest) return code;
      throw new WhetstoneError("DATA_LOSS", `bundle ${digest} holds other code than its name says`);
    },
    async put(digest, code, signal) {
      if (sha256Hex(code) !== digest) {
        throw new WhetstoneError("INVALID_ARGUMENT", `bundle ${digest}: the code's SHA-256 is ${sha256Hex(code)}`);
      }
      if (await has(digest, signal)) return;
      await store.use(`put bundle ${digest}`, (bundles) => bundles.putBlob({ name: digest }, code), signal);
    },
  };
}
