// SPDX-License-Identifier: Apache-2.0
/** Follows an evaluation: its job, and each episode as it is sealed, over restarts of the controller. */
import { isAbort } from "@whetstone/core";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { Purpose } from "@whetstone/proto/types/v1/types";

import type { JobClient } from "./clients.ts";
import type { WatchEvents } from "./job-watch.ts";
import { followJob, keepTrying } from "./job-watch.ts";

export interface EvaluationEvents extends Pick<WatchEvents, "job" | "lost"> {
  /** Each episode once; those that were sealed before come first. */
  readonly episode: (summary: EpisodeSummary) => void;
}

/** Resolves with the finished job. Throws like `followJob`. */
export async function followEvaluation(
  client: JobClient,
  name: string,
  events: EvaluationEvents,
  signal: AbortSignal,
): Promise<Job> {
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  const episodes = followEpisodes(client, name, events, both).catch((error: unknown) => {
    if (!isAbort(error)) over.abort(error);
  });
  try {
    return await followJob(client, name, { ...events, step: () => {}, validation: () => {} }, both);
  } finally {
    over.abort();
    await episodes;
  }
}

async function followEpisodes(
  client: JobClient,
  name: string,
  { episode, lost: _told }: EvaluationEvents,
  signal: AbortSignal,
): Promise<void> {
  const seen = new Set<string>();
  const request = { name, purpose: Purpose.VALIDATION, follow: true };
  await keepTrying({ lost: () => {} }, signal, async (alive) => {
    for await (const { summary } of client.streamEpisodes(request, { signal })) {
      alive();
      if (!summary || seen.has(summary.episodeId)) continue;
      seen.add(summary.episodeId);
      episode(summary);
    }
  });
}

/** All validation episodes of a job, in order of arrival. */
export async function readEpisodes(client: JobClient, name: string, signal: AbortSignal): Promise<EpisodeSummary[]> {
  const found: EpisodeSummary[] = [];
  for await (const { summary } of client.streamEpisodes({ name, purpose: Purpose.VALIDATION }, { signal }))
    if (summary) found.push(summary);
  return found;
}
