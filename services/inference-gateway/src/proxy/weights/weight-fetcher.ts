// SPDX-License-Identifier: Apache-2.0
import type { StoreLocation } from "@whetstone/objects";
import { type TlsIdentity } from "@whetstone/tls";
import { FetchedVersions } from "./fetched-versions.ts";
import { StoreOrigin } from "./object-store.ts";
import { type Origin, TrainerOrigin } from "./origin.ts";
import { broken } from "./manifest.ts";
import { Transfer } from "./transfer.ts";

const DEADLINE_MS = 600_000;

export interface FetcherOptions {
  /** Where versions are kept: up to twice the weights. The engine sees it under the same path. */
  readonly folder: string;
  /** Who we are to a trainer that asks. */
  readonly tls: TlsIdentity | undefined;
  /** Where versions with a URL of s3 are. */
  readonly store: StoreLocation | undefined;
  /** Of a whole transfer, however large. Default: 600,000, a little less than the controller waits. */
  readonly deadlineMs?: number;
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
    const late = AbortSignal.timeout(this.#options.deadlineMs ?? DEADLINE_MS);
    const transfer = new Transfer(origin, AbortSignal.any([signal, late]));
    try {
      return await this.#versions.fetch(transfer, manifestDigest);
    } catch (error) {
      if (!late.aborted) throw error;
      throw broken(
        `${url} did not give the version in time; ${transfer.received} bytes came; files that are whole stay`,
        error,
      );
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
