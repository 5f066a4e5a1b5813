// SPDX-License-Identifier: Apache-2.0
/** Follows an evaluation: its job, and each episode as it is sealed, over restarts of the controller. */
import { isAbort } from "@whetstone/core";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { Purpose } from "@whetstone/proto/types/v1/types";

import type { JobClient } from "../connect/clients.ts";
import type { WatchEvents } from "../jobs/job-watch.ts";
import { followJob, keepTrying } from "../jobs/job-watch.ts";

export interface EvaluationEvents extends Pick<WatchEvents, "job" | "lost"> {
  /** Each episode once; those that were sealed before come first. */
  readonly episode: (summary: EpisodeSummary) => void;
}

/** Resolves with the finished job and all of its episodes. Throws like `followJob`. */
export async function followEvaluation(
  client: JobClient,
  name: string,
  events: EvaluationEvents,
  signal: AbortSignal,
): Promise<{ readonly job: Job; readonly episodes: readonly EpisodeSummary[] }> {
  const seen = new Map<string, EpisodeSummary>();
  const note = (summary: EpisodeSummary): void => {
    if (!seen.has(summary.episodeId)) events.episode(summary);
    seen.set(summary.episodeId, summary);
  };
  const job = await followBoth(client, name, { ...events, episode: note }, signal);
  // The job may have ended before the stream of its episodes did.
  const request = { name, purpose: Purpose.VALIDATION };
  for await (const { summary } of client.streamEpisodes(request, { signal })) if (summary) note(summary);
  return { job, episodes: [...seen.values()] };
}

async function followBoth(
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

/** A lost connection is the job's stream's to report. */
async function followEpisodes(
  client: JobClient,
  name: string,
  { episode }: Pick<EvaluationEvents, "episode">,
  signal: AbortSignal,
): Promise<void> {
  const request = { name, purpose: Purpose.VALIDATION, follow: true };
  await keepTrying({ lost: () => {} }, signal, async (alive) => {
    for await (const { summary } of client.streamEpisodes(request, { signal })) {
      alive();
      if (summary) episode(summary);
    }
  });
}
