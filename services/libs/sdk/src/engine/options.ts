// SPDX-License-Identifier: Apache-2.0
import { type Clock, systemClock, WhetstoneError } from "@whetstone/core";
import type { BaseAgent } from "../base-agent.ts";
import type { Awaitable, Environment } from "../base-env.ts";
import { LIMIT_DEFAULTS } from "../job/generated/limit-defaults.ts";
import type { DeadlinePolicy } from "../job/generated/settings.ts";
import type { RolloutClient, SamplingParams } from "../rollout-client.ts";
import type { Info, Task } from "../types.ts";
import type { PhaseTimeouts } from "./phase-clock.ts";

/** One episode to play. */
export interface EpisodeRequest {
  /** Unique; "<task>:<n>" by default in `executeTasks`. */
  readonly id: string;
  readonly task: Task;
  /** Seeds the environment and, per call, the sampling. */
  readonly seed: number;
}

/** One try of one episode, as factories see it. */
export interface EpisodeRun extends EpisodeRequest {
  /** From 1. */
  readonly try: number;
  /** The episode's deadline and its caller's cancel. */
  readonly signal: AbortSignal;
  /** Milliseconds until the deadline, for the next hop. */
  readonly remainingMs: () => number;
}

export type AgentFactory = (args: Info, run: EpisodeRun) => BaseAgent;
/** An environment in this process, or a session with a remote one. */
export type EnvironmentFactory = (args: Info, run: EpisodeRun) => Awaitable<Environment>;

/** Names and meaning of rLLM's AgentExecutionEngine; lengths count tokens. */
export interface AgentExecutionEngineOptions {
  /** One for all, or one per try: `(run) => …`. */
  readonly rolloutClient: RolloutClient | ((run: EpisodeRun) => RolloutClient);
  readonly agentFactory: AgentFactory;
  readonly agentArgs?: Info | undefined;
  readonly environmentFactory: EnvironmentFactory;
  /** A task's payload is merged over them. */
  readonly environmentArgs?: Info | undefined;
  /** The agent's role. Default "agent". */
  readonly role?: string | undefined;
  /** Episodes at once in `executeTasks` and `trajectoryGenerator`. Default 128. */
  readonly nParallelAgents?: number | undefined;
  /** The one deadline: reset, model, step, reward and all retries. Default 300,000. */
  readonly trajectoryTimeoutMs?: number | undefined;
  /** Discount of the Monte-Carlo returns, [0, 1]. Default 1. */
  readonly gamma?: number | undefined;
  /** How often an episode whose environment, infrastructure or grader failed is played again. Default 2. */
  readonly retryLimit?: number | undefined;
  /** Default 5. */
  readonly maxSteps?: number | undefined;
  /** After the first prompt, sampled and observed together. Default 8192. */
  readonly maxResponseLength?: number | undefined;
  /** Of the first prompt. Default 1024. */
  readonly maxPromptLength?: number | undefined;
  /** Every prompt has `maxPromptLength` and every answer the whole `maxResponseLength`. Default false. */
  readonly enforceMaxPromptLength?: boolean | undefined;
  /** Episodes cut by MAX_TURNS, MAX_RESPONSE_LENGTH or DEADLINE are masked, and get no final reward. Default false. */
  readonly overlongFilter?: boolean | undefined;
  readonly samplingParams?: SamplingParams | undefined;
  /** What an episode counts for that ran into its deadline. Default "void". */
  readonly deadlinePolicy?: DeadlinePolicy | undefined;
  /** Thinking (`<think>…</think>`) of earlier answers stays in later prompts. Default true. */
  readonly accumulateThinking?: boolean | undefined;
  /** Asks the server's chat template for answers without thinking (`enable_thinking: false`). Default false. */
  readonly disableThinking?: boolean | undefined;
  /** Steps carry the server's token ids and log-probabilities; a server that has none fails the episode. Default false. */
  readonly returnTokenIds?: boolean | undefined;
  /** Bounds of single phases. Default: none but the deadline. */
  readonly phaseTimeoutsMs?: PhaseTimeouts | undefined;
  /** How long an environment may take to close. Default 5,000; it may end after the episode's deadline. */
  readonly closeTimeoutMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export type EngineSettings = {
  readonly [K in keyof AgentExecutionEngineOptions]-?: Exclude<AgentExecutionEngineOptions[K], undefined>;
};

const DEFAULTS = {
  agentArgs: {},
  environmentArgs: {},
  role: "agent",
  nParallelAgents: 128,
  trajectoryTimeoutMs: LIMIT_DEFAULTS.episodeTimeout,
  gamma: LIMIT_DEFAULTS.gamma,
  retryLimit: LIMIT_DEFAULTS.retryLimit,
  maxSteps: LIMIT_DEFAULTS.maxSteps,
  maxResponseLength: LIMIT_DEFAULTS.maxResponseTokens,
  maxPromptLength: LIMIT_DEFAULTS.maxPromptTokens,
  enforceMaxPromptLength: LIMIT_DEFAULTS.enforcePromptLimitEachStep,
  overlongFilter: LIMIT_DEFAULTS.overlongFilter,
  samplingParams: {},
  deadlinePolicy: "void",
  accumulateThinking: LIMIT_DEFAULTS.accumulateThinking,
  disableThinking: LIMIT_DEFAULTS.disableThinking,
  returnTokenIds: false,
  phaseTimeoutsMs: {},
  closeTimeoutMs: 5_000,
  clock: systemClock,
};

/** @throws WhetstoneError INVALID_ARGUMENT naming the option. */
export function resolveOptions(options: AgentExecutionEngineOptions): EngineSettings {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const settings = { ...DEFAULTS, ...given } as EngineSettings;
  const { phaseTimeoutsMs } = settings;
  for (const name of ["nParallelAgents", "maxSteps", "maxResponseLength", "maxPromptLength"] as const) {
    atLeast(1, name, settings[name]);
  }
  for (const name of ["trajectoryTimeoutMs", "retryLimit", "closeTimeoutMs", "gamma"] as const) {
    atLeast(0, name, settings[name]);
  }
  if (settings.gamma > 1) throw refused("gamma", "at most 1", settings.gamma);
  for (const [phase, ms] of Object.entries(phaseTimeoutsMs as Record<string, number | undefined>)) {
    if (ms !== undefined) atLeast(1, `phaseTimeoutsMs.${phase}`, ms);
  }
  return { ...settings, closeTimeoutMs: phaseTimeoutsMs.close ?? settings.closeTimeoutMs };
}

function atLeast(bound: number, name: string, value: number): void {
  if (!(value >= bound)) throw refused(name, `at least ${bound}`, value);
}

function refused(name: string, rule: string, value: number): WhetstoneError {
  return new WhetstoneError("INVALID_ARGUMENT", `${name} must be ${rule}, not ${value}`);
}
