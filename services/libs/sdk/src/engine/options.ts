// SPDX-License-Identifier: Apache-2.0
import { type Clock, systemClock, WhetstoneError } from "@whetstone/core";
import type { BaseAgent } from "../base-agent.ts";
import type { Awaitable, Environment } from "../base-env.ts";
import type { RolloutClient, SamplingParams } from "../rollout-client.ts";
import type { Info, Task } from "../types.ts";

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
  /** How long an environment may take to close. Default 5,000; it may end after the episode's deadline. */
  readonly closeTimeoutMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export type EngineSettings = {
  readonly [K in keyof AgentExecutionEngineOptions]-?: Exclude<AgentExecutionEngineOptions[K], undefined>;
};

/** @throws WhetstoneError INVALID_ARGUMENT naming the option. */
export function resolveOptions(options: AgentExecutionEngineOptions): EngineSettings {
  const settings: EngineSettings = {
    rolloutClient: options.rolloutClient,
    agentFactory: options.agentFactory,
    agentArgs: options.agentArgs ?? {},
    environmentFactory: options.environmentFactory,
    environmentArgs: options.environmentArgs ?? {},
    role: options.role ?? "agent",
    nParallelAgents: atLeast(1, "nParallelAgents", options.nParallelAgents ?? 128),
    trajectoryTimeoutMs: atLeast(0, "trajectoryTimeoutMs", options.trajectoryTimeoutMs ?? 300_000),
    gamma: atMost(1, "gamma", atLeast(0, "gamma", options.gamma ?? 1)),
    retryLimit: atLeast(0, "retryLimit", options.retryLimit ?? 2),
    maxSteps: atLeast(1, "maxSteps", options.maxSteps ?? 5),
    maxResponseLength: atLeast(1, "maxResponseLength", options.maxResponseLength ?? 8192),
    maxPromptLength: atLeast(1, "maxPromptLength", options.maxPromptLength ?? 1024),
    enforceMaxPromptLength: options.enforceMaxPromptLength ?? false,
    overlongFilter: options.overlongFilter ?? false,
    samplingParams: options.samplingParams ?? {},
    closeTimeoutMs: atLeast(0, "closeTimeoutMs", options.closeTimeoutMs ?? 5_000),
    clock: options.clock ?? systemClock,
  };
  return settings;
}

function atLeast(bound: number, name: string, value: number): number {
  if (value >= bound) return value;
  throw new WhetstoneError("INVALID_ARGUMENT", `${name} must be at least ${bound}, not ${value}`);
}

function atMost(bound: number, name: string, value: number): number {
  if (value <= bound) return value;
  throw new WhetstoneError("INVALID_ARGUMENT", `${name} must be at most ${bound}, not ${value}`);
}
