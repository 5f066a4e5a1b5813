// SPDX-License-Identifier: Apache-2.0
import type { NatsConnection } from "@nats-io/nats-core";
import { type ObjectStore, Objm } from "@nats-io/obj";
import { raceSignal, WhetstoneError } from "@whetstone/core";
import { sha256Hex } from "./claim-check.ts";
import { natsError } from "./nats-errors.ts";
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
  let opened: Promise<ObjectStore> | undefined;
  const store = (): Promise<ObjectStore> => {
    opened ??= new Objm(connection).open(BUNDLES_BUCKET).catch((error: unknown) => {
      opened = undefined;
      throw natsError(error, `open object store ${BUNDLES_BUCKET}`);
    });
    return opened;
  };
  const call = async <T>(what: string, work: (bundles: ObjectStore) => Promise<T>, signal?: AbortSignal): Promise<T> =>
    raceSignal(
      store()
        .then(work)
        .catch((error: unknown) => {
          throw natsError(error, what);
        }),
      signal,
    );
  const has = async (digest: string, signal?: AbortSignal): Promise<boolean> => {
    const found = await call(`look for bundle ${digest}`, (bundles) => bundles.info(digest), signal);
    return found !== null && !found.deleted;
  };
  return {
    has,
    async get(digest, signal) {
      const code = await call(`get bundle ${digest}`, (bundles) => bundles.getBlob(digest), signal);
      if (code === null) return undefined;
      if (sha256Hex(code) === digest) return code;
      throw new WhetstoneError("DATA_LOSS", `bundle ${digest} holds other code than its name says`);
    },
    async put(digest, code, signal) {
      if (sha256Hex(code) !== digest) {
        throw new WhetstoneError("INVALID_ARGUMENT", `bundle ${digest}: the code's SHA-256 is ${sha256Hex(code)}`);
      }
      if (await has(digest, signal)) return;
      await call(`put bundle ${digest}`, (bundles) => bundles.putBlob({ name: digest }, code), signal);
    },
  };
}
