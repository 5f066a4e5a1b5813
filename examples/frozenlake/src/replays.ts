// SPDX-License-Identifier: Apache-2.0
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import type { Episode } from "@whetstone/proto/types/v1/types";
import type { Platform } from "./platform.ts";

/** One episode as the report draws it. */
export interface Replay {
  readonly id: string;
  readonly won: boolean;
  readonly turns: readonly { readonly board: string; readonly action: string }[];
  readonly lastBoard: string;
}

const REPLAYS = 3;

/** Three greedy held-out episodes after GRPO: won ones first, and a lost one where there is one. */
export async function replaysOf(platform: Platform, job: Job, heldOut: number): Promise<Replay[]> {
  const step = job.status?.step ?? 0;
  const won: Replay[] = [];
  const lost: Replay[] = [];
  for (let task = 0; task < heldOut && (won.length < REPLAYS || lost.length < 1); task++) {
    const episodeId = `${job.spec?.name}/v${step}-greedy-${task}/s0`;
    const { episode } = await platform.jobs.getEpisode({ episodeId });
    if (episode) (episode.isCorrect ? won : lost).push(replayOf(episode));
  }
  return [...won.slice(0, REPLAYS - Math.min(1, lost.length)), ...lost].slice(0, REPLAYS);
}

function replayOf(episode: Episode): Replay {
  const trajectory = episode.trajectories[0];
  return {
    id: episode.id,
    won: episode.isCorrect,
    turns: (trajectory?.steps ?? []).map((step) => ({ board: step.observation, action: step.action })),
    lastBoard: trajectory?.finalObservation ?? "",
  };
}
