// SPDX-License-Identifier: Apache-2.0
import type { Episode } from "@whetstone/proto/types/v1/types";
import type { RunnerClients } from "../environments/runner-clients.ts";
import { RunnerEnvironments } from "../environments/runner-environments.ts";
import type { PlayerDeps } from "./actor-engine.ts";
import { type PlacedDelivery, playEpisode } from "./episode-player.ts";

export interface TaskDeps extends PlayerDeps {
  readonly environments: RunnerClients;
}

/** Plays a task of built-in kinds here, with environments of env-runners. @see playEpisode */
export function playTask(deps: TaskDeps, delivery: PlacedDelivery, signal: AbortSignal): Promise<Episode> {
  const environments = new RunnerEnvironments(deps.environments, delivery.runners, delivery.task.job);
  return playEpisode({ ...deps, environments }, delivery, signal);
}
