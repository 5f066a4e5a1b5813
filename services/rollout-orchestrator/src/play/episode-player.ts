// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, WhetstoneError } from "@whetstone/core";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { type Episode, type ModelCall, Purpose } from "@whetstone/proto/types/v1/types";
import type { TerminationReason } from "@whetstone/sdk";
import { stepsFromCalls } from "./call-steps.ts";
import type { Delivery } from "../tasks/delivery.ts";
import { limitsOf } from "./limits.ts";
import { seal } from "../seal/seal.ts";
import { actorOf, engineFor, type PlayerDeps } from "./actor-engine.ts";
import { demonstrate } from "./demonstration.ts";
import type { Environments } from "../environments/environments.ts";
import type { Runners } from "../environments/runners.ts";
import type { GatewaySession } from "./gateway-session.ts";

export type { PlayerDeps } from "./actor-engine.ts";

/** How long the calls of an episode that hit its deadline may take to be fetched. */
const SALVAGE_MS = 5_000;

export type PlacedDelivery = Delivery & { readonly runners: Runners };

/**
 * Plays a task to its end and returns the episode, whatever came of it.
 * @throws CANCELLED when the signal aborted it; HANDED_BACK when its env-runner went: it is to be played again, elsewhere
 */
export async function playEpisode(
  deps: PlayerDeps & { readonly environments: Environments },
  delivery: Delivery,
  signal: AbortSignal,
): Promise<Episode> {
  const { environments } = deps;
  const { task, recorded } = delivery;
  if (task.purpose === Purpose.DEMONSTRATION) return demonstrate(deps.gateway, delivery, signal);
  const isRollout = actorOf(deps, task)?.form === "rollout";
  if (recorded !== undefined && isRollout) throw notReplayable(task);
  const sessions: GatewaySession[] = [];
  const engine = engineFor(deps, delivery, { sessions, environments });
  const { id = "", payload = {} } = task.task ?? {};
  const request = { id: task.episodeId, task: { id, payload }, seed: seedOf(task) };
  const played = await engine.runEpisode(request, { signal: AbortSignal.any([signal, environments.moved]) });
  if (!signal.aborted) throwIfMoved(environments, sessions);
  const calls = recorded?.calls ?? (await lastCalls(sessions, played.terminationReason));
  return seal(delivery, isRollout ? stepsFromCalls(played, calls, limitsOf(task).gamma) : played, calls);
}

/** Whatever came of it is void. */
function throwIfMoved({ moved }: Environments, sessions: readonly GatewaySession[]): void {
  if (!moved.aborted) return;
  for (const session of sessions) session.discard();
  throw WhetstoneError.from(moved.reason);
}

function notReplayable({ episodeId, agent }: RolloutTask): WhetstoneError {
  const reason = `"${agent?.kind}" is a rollout, which calls the model by itself`;
  return new WhetstoneError("FAILED_PRECONDITION", `episode "${episodeId}" cannot be replayed: ${reason}`);
}

/** Only the last try counts; what the others left in the gateway is dropped. */
async function lastCalls(sessions: GatewaySession[], reason: TerminationReason): Promise<ModelCall[]> {
  const last = reason === "CANCELLED" ? undefined : sessions.pop();
  for (const session of sessions) session.discard();
  if (reason === "CANCELLED") throw new WhetstoneError("CANCELLED", "the episode was cancelled");
  return (await last?.salvage(SALVAGE_MS)) ?? [];
}

/** The same in every attempt; engines and environments take 53 bits at most. */
function seedOf({ seed }: RolloutTask): number {
  return seed <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(seed) : deriveSeed(seed);
}
