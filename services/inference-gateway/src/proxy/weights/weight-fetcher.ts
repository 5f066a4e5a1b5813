// SPDX-License-Identifier: Apache-2.0
import { type TlsIdentity } from "@whetstone/tls";
import { FetchedVersions } from "./fetched-versions.ts";
import { StoreOrigin, type StoreOptions } from "./object-store.ts";
import { type Origin, TrainerOrigin } from "./origin.ts";
import { broken } from "./manifest.ts";
import { Transfer } from "./transfer.ts";

/** The whole of a transfer, however large; the controller waits a little longer. */
const DEADLINE_MS = 600_000;

export interface FetcherOptions {
  /** Where versions are kept: up to twice the weights. The engine sees it under the same path. */
  readonly folder: string;
  /** Who we are to a trainer that asks. */
  readonly tls: TlsIdentity | undefined;
  /** Where versions with a URL of s3 are. */
  readonly store: StoreOptions | undefined;
}

/** Brings versions from the trainer or an object store to an engine that only reads folders. */
export class WeightFetcher {
  readonly counters = { bytes: 0, seconds: 0, resumed: 0 };
  readonly #options: FetcherOptions;
  readonly #versions: FetchedVersions;

  constructor(options: FetcherOptions) {
    this.#options = options;
    this.#versions = new FetchedVersions(options.folder);
  }

  /** @returns the folder of the version, checked against its manifest. @throws WhetstoneError that says what is wrong */
  async fetch(url: string, manifestDigest: string, signal: AbortSignal): Promise<string> {
    const startedAt = performance.now();
    await using origin = await this.#originOf(url.replace(/\/$/, ""));
    const transfer = new Transfer(origin, AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]));
    try {
      return await this.#versions.fetch(transfer, manifestDigest);
    } finally {
      this.counters.bytes += transfer.received;
      this.counters.resumed += transfer.resumed;
      this.counters.seconds += (performance.now() - startedAt) / 1000;
    }
  }

  async #originOf(url: string): Promise<Origin> {
    const { tls, store } = this.#options;
    if (!url.startsWith("s3:")) return new TrainerOrigin(url, tls);
    if (!store)
      throw broken(`stream.url: ${url} is in an object store, and this engine has none (WHETSTONE_OBJECT_STORE)`);
    return await StoreOrigin.at(url, store);
  }
}
