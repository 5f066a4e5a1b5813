// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, WhetstoneError } from "@whetstone/core";
import type { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { type Episode, type ModelCall, Purpose } from "@whetstone/proto/types/v1/types";
import type { RpcClient } from "@whetstone/rpc";
import {
  AgentExecutionEngine,
  type BaseAgent,
  type Environment,
  EpisodeError,
  type EpisodeRun,
  type Info,
  type RegisteredActor,
  type Registry,
  type TerminationReason,
} from "@whetstone/sdk";
import type { Delivery } from "../domain/delivery.ts";
import { limitsOf } from "../domain/limits.ts";
import { seal } from "../domain/seal.ts";
import { sessionName } from "../domain/session-name.ts";
import { demonstrate } from "./demonstration.ts";
import type { Gateway } from "./gateway.ts";
import { GatewaySession } from "./gateway-session.ts";
import { RemoteEnvironment } from "./remote-environment.ts";

export interface PlayerDeps {
  readonly actors: Registry<RegisteredActor>;
  readonly environments: RpcClient<typeof EnvironmentService>;
  readonly gateway: Gateway;
}

/** How long the calls of an episode that hit its deadline may take to be fetched. */
const SALVAGE_MS = 5_000;

/** Plays a task to its end and returns the episode, whatever came of it. @throws CANCELLED when the signal aborted it. */
export async function playTask(deps: PlayerDeps, delivery: Delivery, signal: AbortSignal): Promise<Episode> {
  const { task } = delivery;
  if (task.purpose === Purpose.DEMONSTRATION) return demonstrate(deps.gateway, delivery, signal);
  const sessions: GatewaySession[] = [];
  const engine = engineFor(deps, delivery, sessions);
  const { id = "", payload = {} } = task.task ?? {};
  const request = { id: task.episodeId, task: { id, payload }, seed: seedOf(task) };
  const played = await engine.runEpisode(request, { signal });
  const calls = await lastCalls(sessions, played.terminationReason);
  return seal(delivery, played, calls);
}

function engineFor(deps: PlayerDeps, delivery: Delivery, sessions: GatewaySession[]): AgentExecutionEngine {
  const { task } = delivery;
  return new AgentExecutionEngine({
    ...limitsOf(task),
    rolloutClient: (run) => openSession(deps, delivery, run, sessions),
    agentFactory: (args) => agentOf(deps, task, args),
    agentArgs: task.agent?.args,
    environmentFactory: (args, run) => openEnvironment(deps, task, args, run),
    environmentArgs: task.environment?.args,
  });
}

function agentOf({ actors }: PlayerDeps, { agent }: RolloutTask, args: Info): BaseAgent {
  const actor = actors.get(agent?.kind ?? "");
  if (actor.form !== "agent")
    throw new WhetstoneError("UNSUPPORTED_SETTING", `agent.kind: ${actor.form}s cannot play yet`);
  return actor.create(args);
}

/** Only the last try counts; what the others left in the gateway is dropped. */
async function lastCalls(sessions: GatewaySession[], reason: TerminationReason): Promise<ModelCall[]> {
  const last = reason === "CANCELLED" ? undefined : sessions.pop();
  for (const session of sessions) session.discard();
  if (reason === "CANCELLED") throw new WhetstoneError("CANCELLED", "the episode was cancelled");
  return (await last?.salvage(SALVAGE_MS)) ?? [];
}

function openSession(
  { gateway }: PlayerDeps,
  { task, attempt }: Delivery,
  run: EpisodeRun,
  sessions: GatewaySession[],
): GatewaySession {
  const session = new GatewaySession(gateway, sessionName(task.episodeId, attempt, run.try), task.model);
  sessions.push(session);
  return session;
}

function openEnvironment(deps: PlayerDeps, task: RolloutTask, args: Info, run: EpisodeRun): Environment {
  const kind = task.environment?.kind ?? "";
  if (kind === "") throw new EpisodeError("TASK", "environment.kind: the task names no environment");
  return new RemoteEnvironment(deps.environments, kind, args, run);
}

/** The same in every attempt; engines and environments take 53 bits at most. */
function seedOf({ seed }: RolloutTask): number {
  return seed <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(seed) : deriveSeed(seed);
}
