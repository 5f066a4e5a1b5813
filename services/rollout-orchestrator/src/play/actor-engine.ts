// SPDX-License-Identifier: Apache-2.0
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import {
  AgentExecutionEngine,
  AgentWorkflowEngine,
  type BaseAgent,
  type ClientSource,
  type Environment,
  EpisodeError,
  type EpisodeRun,
  type Info,
  type RegisteredActor,
  type Registry,
} from "@whetstone/sdk";
import type { Delivery } from "../tasks/delivery.ts";
import { limitsOf, termsOf } from "./limits.ts";
import { recordOf } from "./record.ts";
import { sessionName } from "./session-name.ts";
import type { EnvironmentChoice, Environments } from "../environments/environments.ts";
import type { ExternalModels } from "./external-models.ts";
import type { GatewayChoice } from "./gateway.ts";
import { GatewaySession } from "./gateway-session.ts";

export interface PlayerDeps {
  readonly actors: Registry<RegisteredActor>;
  readonly gateway: GatewayChoice;
  readonly externals: ExternalModels;
  /** Gets what workflows log. Absent: nowhere. */
  readonly log?: ((message: string, fields: Info) => void) | undefined;
}

/** What one play has beside its task. */
export interface PlayScope {
  /** Gets the gateway session of each try. */
  readonly sessions: GatewaySession[];
  readonly environments: Environments;
}

/** The engine for the form of the task's actor. */
export function engineFor(
  deps: PlayerDeps,
  delivery: Delivery,
  { sessions, environments }: PlayScope,
): Pick<AgentExecutionEngine, "runEpisode"> {
  const { task, recorded } = delivery;
  const actor = actorOf(deps, task);
  const { agent, ...others } = recorded === undefined ? externalClients(deps, task) : { agent: recordOf(recorded) };
  const shared = {
    ...limitsOf(task),
    ...(recorded === undefined ? {} : { retryLimit: 0 }),
    rolloutClient: agent ?? ((run: EpisodeRun) => openSession(deps, delivery, run, sessions)),
    environmentArgs: task.environment?.args,
  };
  const openKind = (kind: string, args: Info, run: EpisodeRun) => openEnvironment(environments, { kind, args }, run);
  const kind = task.environment?.kind ?? "";
  const environmentFactory = (args: Info, run: EpisodeRun) => openKind(kind, args, run);
  if (actor === undefined || actor.form === "agent") {
    const agentFactory = (args: Info): BaseAgent => agentOf(deps, task, args);
    return new AgentExecutionEngine({ ...shared, agentFactory, agentArgs: task.agent?.args, environmentFactory });
  }
  return new AgentWorkflowEngine({
    ...shared,
    workflow: actor,
    workflowArgs: task.agent?.args,
    rolloutClients: others,
    environmentFactory: kind === "" ? undefined : environmentFactory,
    environments: openKind,
    log: deps.log,
  });
}

/** Undefined: unknown; then the episode fails where the agent is made, with the names of those that are known. */
export function actorOf({ actors }: Pick<PlayerDeps, "actors">, { agent }: RolloutTask): RegisteredActor | undefined {
  return actors.kinds.find(({ kind }) => kind === agent?.kind);
}

function agentOf({ actors }: PlayerDeps, { agent }: RolloutTask, args: Info): BaseAgent {
  const actor = actors.get(agent?.kind ?? "");
  if (actor.form !== "agent") throw new EpisodeError("TASK", `agent.kind: "${actor.kind}" is a ${actor.form}`);
  return actor.create(args);
}

/** Roles that are answered by other models than the policy. */
function externalClients({ externals }: PlayerDeps, { roles }: RolloutTask): Record<string, ClientSource> {
  const clients: Record<string, ClientSource> = {};
  for (const { name, model } of roles) if (model) clients[name] = () => externals.client(model);
  return clients;
}

function openSession(
  { gateway }: PlayerDeps,
  { task, attempt, replay }: Delivery,
  run: EpisodeRun,
  sessions: GatewaySession[],
): GatewaySession {
  const name = sessionName(task.episodeId, attempt, run.try, replay);
  const session = new GatewaySession(gateway, name, { model: task.model, terms: termsOf(task) });
  sessions.push(session);
  return session;
}

function openEnvironment(environments: Environments, choice: EnvironmentChoice, run: EpisodeRun): Environment {
  if (choice.kind === "") throw new EpisodeError("TASK", "environment.kind: the task names no environment");
  return environments.open(choice, run);
}
