// SPDX-License-Identifier: Apache-2.0
import { fromBinary } from "@bufbuild/protobuf";
import { inTurns, raceSignal } from "@whetstone/core";
import { episodeStream, type TypedStreams } from "@whetstone/messaging";
import { EpisodeSchema, type EpisodeSummary, EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import type { Logger } from "@whetstone/telemetry";
import { EpisodeTable } from "./episode-table.ts";
import type { FindEpisode } from "./sealed-episode.ts";
import type { EpisodeIndex } from "../ports.ts";

export const SUMMARY_HEADER = "Whetstone-Summary";
/** Arrivals within this time wake the waiters once: planning a batch costs more than a header. */
const COALESCE_MS = 15;

/** Headers between two turns of others. */
const READ_AT_ONCE = 128;

/** Follows the EPISODE stream of one job by its headers; bodies with their token ids never come here. */
export class StreamEpisodeIndex implements EpisodeIndex, AsyncDisposable {
  readonly #sealed = new EpisodeTable();
  readonly #stop = new AbortController();
  readonly #logger: Logger;
  #arrival = Promise.withResolvers<void>();
  #timer: NodeJS.Timeout | undefined;
  readonly #reading: Promise<void>;

  constructor(streams: TypedStreams, job: string, logger: Logger) {
    this.#logger = logger;
    this.#reading = this.#read(streams, job).catch((error: unknown) => {
      if (!this.#stop.signal.aborted) logger.error("episode_index_failed", { error });
    });
  }

  get size(): number {
    return this.#sealed.size;
  }

  readonly find: FindEpisode = (episodeId) => this.#sealed.find(episodeId);

  sealedAfter(seen: number): Iterable<string> {
    return this.#sealed.idsAfter(seen);
  }

  async grown(seen: number, signal: AbortSignal): Promise<void> {
    while (this.size <= seen) await raceSignal(this.#arrival.promise, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    await this.#reading;
  }

  async #read(streams: TypedStreams, job: string): Promise<void> {
    const options = { headersOnly: true, prefetch: 2 * READ_AT_ONCE, signal: this.#stop.signal };
    const messages = streams.readFrom(episodeStream(job), EpisodeSchema, options);
    for await (const message of inTurns(messages, READ_AT_ONCE)) {
      const summary = summaryOf(message.headers);
      if (!summary) {
        this.#logger.error("episode_without_summary", { job, sequence: message.sequence });
        continue;
      }
      // The first seal of an id counts; the stream refuses others, this is the second lock (I1).
      this.#sealed.add(message.sequence, summary);
      this.#wakeSoon();
    }
  }

  #wakeSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const arrived = this.#arrival;
      this.#arrival = Promise.withResolvers<void>();
      arrived.resolve();
    }, COALESCE_MS);
  }
}

/** The summary that the orchestrator put beside the body. Undefined: not one of ours. */
export function summaryOf(headers: Readonly<Record<string, string>>): EpisodeSummary | undefined {
  const text = headers[SUMMARY_HEADER];
  return text === undefined ? undefined : fromBinary(EpisodeSummarySchema, Buffer.from(text, "base64"));
}
