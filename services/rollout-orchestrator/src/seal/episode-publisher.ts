// SPDX-License-Identifier: Apache-2.0
import { toBinary } from "@bufbuild/protobuf";
import { sleep, WhetstoneError } from "@whetstone/core";
import { episodeSubject, type Published, sha256Hex, type TypedStreams } from "@whetstone/messaging";
import { type Episode, EpisodeSchema, EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import type { Logger } from "@whetstone/telemetry";
import { summarize } from "./summary.ts";

export const SUMMARY_HEADER = "Whetstone-Summary";

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Puts a sealed episode on its subject; a second seal of the same id is refused by the stream, which is a success (I1).
 * A full stream is back pressure and a lost server a passing fault: it waits, as long as the signal lets it.
 */
export async function publishEpisode(
  streams: TypedStreams,
  episode: Episode,
  signal: AbortSignal,
  logger: Logger,
): Promise<Published> {
  const subject = episodeSubject(episode.job, episode.group, episode.sample);
  const options = { msgId: episode.id, headers: headersOf(episode), firstOnSubject: true, signal };
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await streams.publish(subject, EpisodeSchema, episode, options);
    } catch (error) {
      const { retry, code } = WhetstoneError.from(error);
      if (signal.aborted || retry === "never") throw error;
      logger.warn("episode_waits", { episodeId: episode.id, code, attempt });
      await sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1)), signal);
    }
  }
}

function headersOf(episode: Episode): Record<string, string> {
  const summary = summarize(episode, sha256Hex(toBinary(EpisodeSchema, episode)));
  return { [SUMMARY_HEADER]: Buffer.from(toBinary(EpisodeSummarySchema, summary)).toString("base64") };
}
