// SPDX-License-Identifier: Apache-2.0
import type { Awaitable, Environment, ResetOptions, ResetResult, StepOptions, StepResult } from "../base-env.ts";
import type { EnvironmentLike } from "../define.ts";
import type { EnvironmentFactory } from "../engine/options.ts";
import type { ModelAnswer, ModelEndpoint, SamplingParams, ToolSpec } from "../rollout-client.ts";
import type { ChatMessage, Info, Step, Task, Trajectory } from "../types.ts";
import type { WorkflowEnd } from "./termination.ts";

/** What a workflow gets beside its task; the same things are there as methods of `Workflow`. */
export interface WorkflowContext {
  /** The episode's id. */
  readonly uid: string;
  readonly task: Task;
  readonly seed: number;
  /** From 1. */
  readonly try: number;
  /** Aborted at the episode's deadline, by a cancel, and when the episode has ended. */
  readonly signal: AbortSignal;
  /** Milliseconds until the deadline. */
  readonly remainingMs: () => number;
  /** Asks the model of a role. */
  readonly rollout: (role: string) => RoleChat;
  /** The model server itself, for code that brings its own client. @throws where the role's client has no address. */
  readonly endpoint: (role?: string) => ModelEndpoint;
  /** As `endpoint`, with a key that is good for this try alone where the server issues keys. */
  readonly openEndpoint: (role?: string) => Promise<ModelEndpoint>;
  readonly openEnvironment: OpenEnvironment;
  /** The episode belongs to a job (or engine) that names an environment. */
  readonly hasEnvironment: boolean;
  /** Runs a reward function: bounded by the deadline, and its failure is the grader's. */
  readonly score: <T>(reward: () => Awaitable<T>) => Promise<T>;
  readonly log: (message: string, fields?: Info) => void;
}

export type RoleChat = (messages: readonly ChatMessage[], options?: RoleChatOptions) => Promise<RoleAnswer>;

export interface RoleChatOptions {
  /** Over the engine's own, field by field. */
  readonly sampling?: SamplingParams | undefined;
  readonly tools?: readonly ToolSpec[] | undefined;
  /** Most tokens of the answer. Default and upper bound: the engine's `maxResponseLength`. */
  readonly maxTokens?: number | undefined;
  /** Default: from the episode's seed, the role, and how often the role was asked before. */
  readonly seed?: number | undefined;
  /** Ends this call earlier than the episode. */
  readonly signal?: AbortSignal | undefined;
}

export interface RoleAnswer extends ModelAnswer {
  /** The call as a turn: give it a reward, commit it. What is not committed becomes part of the role's own trajectory. */
  readonly step: Step;
}

/**
 * Opens an environment that is closed with the episode at the latest: the job's own (no argument; the task's payload is
 * merged over its arguments), one by kind, a class or definition, or a factory.
 */
export type OpenEnvironment = (
  what?: string | EnvironmentLike | EnvironmentFactory,
  args?: Info,
) => Promise<OpenedEnvironment>;

/** Every call is bounded by the episode's deadline and knows its phase. */
export interface OpenedEnvironment extends Environment {
  /** Seed: the episode's by default. */
  reset(options?: Partial<ResetOptions>): Promise<ResetResult>;
  step(action: unknown, options?: StepOptions): Promise<StepResult>;
  /** The environment's final reward; undefined where it has none. */
  finalReward(): Promise<number | undefined>;
  close(): Promise<void>;
}

export interface AgentPlayOptions {
  /** From `openEnvironment`. Default: the job's own, opened for this. */
  readonly environment?: OpenedEnvironment | undefined;
  /** Default: "agent". */
  readonly role?: string | undefined;
  /** Default: the engine's. */
  readonly maxSteps?: number | undefined;
  /**
   * Every prompt and every answer has the whole budget, and an answer that is cut ends the play. Default: one budget for
   * all that follows the first prompt, as in AgentExecutionEngine.
   */
  readonly budgetPerCall?: boolean | undefined;
}

export interface AgentPlay {
  readonly reason: WorkflowEnd;
  /** Committed already. */
  readonly trajectory: Trajectory;
}
