// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { ReplayRequest } from "@whetstone/proto/rollouts/v1/rollouts";
import { type Episode, Purpose, type ReplayDifference } from "@whetstone/proto/types/v1/types";
import { compareEpisodes } from "./compare-episodes.ts";
import type { Delivery } from "../tasks/delivery.ts";

/** Plays a delivery wherever its code runs. */
export type Play = (delivery: Delivery, signal: AbortSignal) => Promise<Episode>;

export interface Replayed {
  readonly replayed: Episode;
  readonly differences: ReplayDifference[];
}

/** @throws FAILED_PRECONDITION for what no replay can be made of. */
export async function replayEpisode(
  play: Play,
  { task, recorded }: ReplayRequest,
  signal: AbortSignal,
): Promise<Replayed> {
  if (task === undefined || recorded === undefined)
    throw new WhetstoneError("INVALID_ARGUMENT", "task and recorded: both are needed");
  if (recorded.purpose === Purpose.DEMONSTRATION) throw refused(recorded, "it is a demonstration: nobody played it");
  const replayed = await play({ task, attempt: recorded.attempt, waitingMs: 0, recorded }, signal);
  return { replayed, differences: compareEpisodes(recorded, replayed) };
}

function refused({ id }: Episode, reason: string): WhetstoneError {
  return new WhetstoneError("FAILED_PRECONDITION", `episode "${id}" cannot be replayed: ${reason}`);
}
