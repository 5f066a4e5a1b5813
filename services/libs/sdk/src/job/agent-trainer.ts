// SPDX-License-Identifier: Apache-2.0
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { ConfigError, WhetstoneError } from "@whetstone/core";

import {
  defineRollout,
  type EnvironmentLike,
  type RegisteredAgent,
  type RegisteredEnvironment,
  type RegisteredRollout,
} from "../define.ts";
import type { AgentClass, WorkflowClass } from "../read-module.ts";
import type { RolloutFunction } from "../rollout/rollout.ts";
import type { Info } from "../types.ts";
import type { RegisteredActor, RegisteredWorkflow } from "../workflow/define-workflow.ts";
import type { Use } from "./actor.ts";
import type { DatasetSource } from "./dataset.ts";
import { defineJob, type JobDefinition, type JobOptions, type Validation } from "./define-job.ts";
import type { TrainerEntry, TrainOptions, TrainResult } from "./training.ts";

type JobSettings = Omit<JobOptions, "agent" | "workflow" | "rollout" | "environment" | "train" | "validation">;

/** rLLM's parameters in camelCase; what it reads from a configuration tree are the settings of a job here. */
export interface AgentTrainerSettings extends JobSettings {
  /** `import.meta.url` of the module that makes the trainer, and exports it: its code plays the episodes elsewhere. */
  readonly module: string;
  /** One of the three. A text names a built-in one. */
  readonly agentClass?: AgentClass | RegisteredAgent | string | undefined;
  readonly workflowClass?: WorkflowClass | RegisteredWorkflow | string | undefined;
  /** Any async function; it calls the model by itself. */
  readonly agentRunFunc?: RolloutFunction | RegisteredRollout | string | undefined;
  readonly agentArgs?: Info | undefined;
  readonly workflowArgs?: Info | undefined;
  /** Required with `agentClass`. */
  readonly envClass?: EnvironmentLike | string | undefined;
  readonly envArgs?: Info | undefined;
  readonly trainDataset?: DatasetSource | undefined;
  readonly valDataset?: Validation | undefined;
}

export interface AgentTrainerOfJob {
  /** `import.meta.url` of the module that makes the trainer. */
  readonly module: string;
  readonly job: JobDefinition;
}

/**
 * Trains from a program: `node train.ts`. Export it from its module, and guard the call, because the module is loaded
 * again wherever its agents play:
 *
 *     export const trainer = new AgentTrainer({ module: import.meta.url, agentClass: MyAgent, … });
 *     if (import.meta.main) console.log(await trainer.train());
 */
export class AgentTrainer {
  readonly definition: JobDefinition;
  readonly #module: string;

  /** @throws ConfigError with every unknown or wrong setting by path. */
  constructor(options: AgentTrainerSettings | AgentTrainerOfJob) {
    const { module } = options as { readonly module?: unknown };
    if (typeof module !== "string" || module === "") throw refused("module", "must be import.meta.url");
    this.#module = module;
    this.definition = "job" in options ? jobOf(options) : defineJob(toJob(options));
  }

  /** Registered by the module for this trainer. */
  get actors(): readonly RegisteredActor[] {
    return this.definition.actors;
  }

  get environments(): readonly RegisteredEnvironment[] {
    return this.definition.environments;
  }

  /**
   * Trains to the end: against WHETSTONE_ENDPOINT, else the running local runtime, else one that is started for it.
   * @throws WhetstoneError FAILED_PRECONDITION when the job fails, when this module is only being loaded to play episodes, or
   * when @whetstone/cli is not installed; CANCELLED when `signal` aborts or somebody cancels the job.
   */
  async train(options: TrainOptions = {}): Promise<TrainResult> {
    if (process.env["WHETSTONE_MODULE_HOST"] === "1") throw calledInHost();
    const entry = await loadEntry(this.#module);
    return entry.trainJob({ ...options, module: this.#module, definition: this.definition });
  }
}

function jobOf(options: AgentTrainerOfJob): JobDefinition {
  const extra = Object.keys(options).filter((name) => name !== "module" && name !== "job");
  if (extra.length > 0)
    throw new ConfigError(extra.map((path) => ({ path, reason: "is the job's own: say it there" })));
  if ((options.job as JobDefinition | undefined)?.form === "job") return options.job;
  throw refused("job", "must be made by defineJob({…})");
}

function toJob(options: AgentTrainerSettings): JobOptions {
  const { module: _, agentClass, workflowClass, agentRunFunc, agentArgs, workflowArgs, ...others } = options;
  const { envClass, envArgs, trainDataset, valDataset, ...settings } = others;
  refuseStray(
    { agentArgs, workflowArgs, envArgs },
    { agentArgs: agentClass, workflowArgs: workflowClass, envArgs: envClass },
  );
  return {
    ...settings,
    agent: use(agentClass, agentArgs),
    workflow: use(workflowClass, workflowArgs),
    rollout: use(typeof agentRunFunc === "function" ? asRollout(agentRunFunc) : agentRunFunc, undefined),
    environment: use(envClass, envArgs),
    train: trainDataset,
    validation: valDataset,
  };
}

function use<Like>(kind: Like | string | undefined, args: Info | undefined): Use<Like> | undefined {
  return kind === undefined ? undefined : { kind, args };
}

function asRollout(run: RolloutFunction): RegisteredRollout {
  return defineRollout({ kind: run.name === "" ? "rollout" : run.name, run });
}

/** Arguments for nobody would be a silent no-op (I11). */
function refuseStray(args: Record<string, unknown>, takers: Record<string, unknown>): void {
  const stray = Object.keys(args).filter((name) => args[name] !== undefined && takers[name] === undefined);
  if (stray.length > 0) throw new ConfigError(stray.map((path) => ({ path, reason: "is given without its class" })));
}

/** The command line installed beside the SDK, or beside the user's module. */
async function loadEntry(module: string): Promise<TrainerEntry> {
  const name = "@whetstone/cli/trainer";
  for (const from of [module, import.meta.url]) {
    const path = resolveFrom(from, name);
    if (path !== undefined) return (await import(pathToFileURL(path).href)) as TrainerEntry;
  }
  const advice = "AgentTrainer runs jobs through it: npm install --save-dev @whetstone/cli";
  throw new WhetstoneError("FAILED_PRECONDITION", `@whetstone/cli is not installed. ${advice}`);
}

function resolveFrom(from: string, name: string): string | undefined {
  try {
    return createRequire(from).resolve(name);
  } catch (error) {
    if (NOT_HERE.has((error as NodeJS.ErrnoException).code)) return undefined;
    throw error;
  }
}

/** No such package, one without this entry, or a module that is no file. */
const NOT_HERE: ReadonlySet<unknown> = new Set([
  "MODULE_NOT_FOUND",
  "ERR_PACKAGE_PATH_NOT_EXPORTED",
  "ERR_INVALID_ARG_VALUE",
]);

function calledInHost(): WhetstoneError {
  const why = "train() was called while the module is loaded to play episodes";
  return new WhetstoneError("FAILED_PRECONDITION", `${why}: guard the call with \`if (import.meta.main)\``);
}

function refused(path: string, reason: string): ConfigError {
  return new ConfigError([{ path, reason }]);
}
