// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Awaitable, Environment } from "../base-env.ts";
import type { RegisteredEnvironment, RegisteredRollout } from "../define.ts";
import {
  type AgentExecutionEngineOptions,
  type EngineSettings,
  type EnvironmentFactory,
  type EpisodeRun,
  resolveOptions,
} from "../engine/options.ts";
import { asRegisteredWorkflow, type WorkflowClass } from "../read-module.ts";
import { RolloutWorkflow } from "../rollout/rollout-workflow.ts";
import type { RolloutClient } from "../rollout-client.ts";
import type { Episode, Info } from "../types.ts";
import type { RegisteredWorkflow } from "./define-workflow.ts";
import type { Workflow } from "./workflow.ts";

/** One for all, or one per try. */
export type ClientSource = RolloutClient | ((run: EpisodeRun) => RolloutClient);
/** Opens an environment by its kind. */
export type EnvironmentOpener = (kind: string, args: Info, run: EpisodeRun) => Awaitable<Environment>;

/** What is the same as in AgentExecutionEngine: budgets hold for each agent that a workflow plays, and for each single call. */
type Shared = Omit<
  AgentExecutionEngineOptions,
  "agentFactory" | "agentArgs" | "environmentFactory" | "role" | "nParallelAgents"
>;

/** Names and meaning of rLLM's AgentWorkflowEngine. */
export interface AgentWorkflowEngineOptions extends Shared {
  /** A class, or what `defineWorkflow` and `defineRollout` give; an instance is made for each try. */
  readonly workflow: WorkflowClass | RegisteredWorkflow | RegisteredRollout;
  readonly workflowArgs?: Info | undefined;
  /** Roles that another model answers. */
  readonly rolloutClients?: Readonly<Record<string, ClientSource>> | undefined;
  /** The environment of `openEnvironment()`. Default: there is none. */
  readonly environmentFactory?: EnvironmentFactory | undefined;
  /** The environments of `openEnvironment(kind)`. Default: none. */
  readonly environments?: readonly RegisteredEnvironment[] | EnvironmentOpener | undefined;
  /** Episodes at once in `executeTasks` and `episodeGenerator`. Default 128. */
  readonly nParallelTasks?: number | undefined;
  /** Called with each episode as it ends; what it throws is logged, never the episode's failure. */
  readonly onEpisode?: ((episode: Episode) => Awaitable<void>) | undefined;
  /** Gets what workflows log. Default: nowhere. */
  readonly log?: ((message: string, fields: Info) => void) | undefined;
}

export interface WorkflowSettings extends Omit<EngineSettings, "environmentFactory"> {
  readonly workflowFactory: () => Workflow;
  readonly rolloutClients: Readonly<Record<string, ClientSource>>;
  readonly environmentFactory: EnvironmentFactory | undefined;
  readonly openByKind: EnvironmentOpener;
  readonly onEpisode: (episode: Episode) => Awaitable<void>;
  readonly log: (message: string, fields: Info) => void;
}

/** @throws WhetstoneError INVALID_ARGUMENT naming the option. */
export function resolveWorkflowOptions(options: AgentWorkflowEngineOptions): WorkflowSettings {
  const { workflow, workflowArgs = {}, environments = [], nParallelTasks = 128, ...shared } = options;
  if (!(nParallelTasks >= 1)) {
    throw new WhetstoneError("INVALID_ARGUMENT", `nParallelTasks must be at least 1, not ${nParallelTasks}`);
  }
  const unused = { agentFactory: noAgent, environmentFactory: noEnvironment };
  return {
    ...resolveOptions({ ...shared, ...unused, nParallelAgents: nParallelTasks }),
    workflowFactory: factoryOf(workflow, workflowArgs),
    rolloutClients: options.rolloutClients ?? {},
    environmentFactory: options.environmentFactory,
    openByKind: typeof environments === "function" ? environments : openerOf(environments),
    onEpisode: options.onEpisode ?? (() => undefined),
    log: options.log ?? (() => undefined),
  };
}

function factoryOf(given: AgentWorkflowEngineOptions["workflow"], args: Info): () => Workflow {
  if (typeof given === "object" && given.form === "rollout") return () => new RolloutWorkflow(given.create(args));
  const { create } = asRegisteredWorkflow(given);
  return () => create(args);
}

function openerOf(environments: readonly RegisteredEnvironment[]): EnvironmentOpener {
  const byKind = new Map(environments.map((entry) => [entry.kind, entry]));
  return (kind, args) => {
    const entry = byKind.get(kind);
    if (entry) return entry.create(args);
    throw new WhetstoneError("TASK_INVALID", `unknown environment "${kind}"; known: ${[...byKind.keys()].join(", ")}`);
  };
}

function noAgent(): never {
  throw new WhetstoneError("INTERNAL", "a workflow makes its agents itself");
}

function noEnvironment(): never {
  throw new WhetstoneError("TASK_INVALID", "environment.kind: the job names no environment");
}
