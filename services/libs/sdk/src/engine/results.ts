// SPDX-License-Identifier: Apache-2.0
import { type Failure, isScored, type TerminationReason } from "../failure.ts";
import type { DeadlinePolicy } from "../job/generated/settings.ts";
import { type ChatMessage, createTrajectory, type Episode, type Step, type Task, type Trajectory } from "../types.ts";
import { assembleTokens, type TokenBreak } from "./token-rows.ts";

/** rLLM's four forms of a result, and the whole episode. */
export type ResultMode = keyof ResultOfMode;

export interface ResultOfMode {
  readonly Episode: Episode;
  readonly Text: TextResult;
  readonly Token: TokenResult;
  readonly Step: StepsResult;
  readonly Conversation: ConversationResult;
}

export interface ResultOptions {
  /** Of the episode in its batch. Default 0. */
  readonly idx?: number | undefined;
  /** Whose trajectory. Default: the first. */
  readonly role?: string | undefined;
  /** As the engine's. Default "void". */
  readonly deadlinePolicy?: DeadlinePolicy | undefined;
}

/** What every form says. */
export interface ResultHead {
  /** Of the episode in its batch: task index × nSamples + sample. */
  readonly idx: number;
  /** The episode's. */
  readonly id: string;
  readonly task: Task;
  readonly seed: number;
  readonly terminationReason: TerminationReason;
  readonly failure: Failure;
  /** No part of any statistics, and nothing to train on (I6): it failed, and not by the policy. */
  readonly voided: boolean;
  /** By the overlong filter or the deadline policy: it counts in statistics and trains nothing. */
  readonly masked: boolean;
  /** Sum of the step rewards; of a voided episode, those before the failure. */
  readonly trajectoryReward: number;
  readonly isCorrect: boolean;
}

/** Mode Text: the trajectory itself. Without steps where the episode failed before the first. */
export interface TextResult extends ResultHead, Trajectory {}

/** Mode Step: each turn by itself, for agents that keep no history. */
export interface StepsResult extends ResultHead {
  readonly steps: readonly Step[];
  /** One a step. */
  readonly mcReturns: readonly number[];
}

/** Mode Conversation. */
export interface ConversationResult extends ResultHead {
  /** The last step's conversation, answer included. */
  readonly messages: readonly ChatMessage[];
  /** Each step's conversation begins with all of the step's before: `messages` holds the whole episode. */
  readonly isCumulative: boolean;
}

/** Mode Token: one row to train on. Ids and log-probabilities are the server's own (I4); no text was tokenised again. */
export interface TokenResult extends ResultHead {
  /** Of the first call. */
  readonly promptTokens: readonly number[];
  /** Everything after it: sampled, and what later prompts added. */
  readonly responseTokens: readonly number[];
  /** One a response token: 1 sampled, 0 added. All 0 when voided, masked, or broken (see `tokenBreak`). */
  readonly responseMasks: readonly (0 | 1)[];
  /** One a response token: natural logarithm at sampling, 0 where it was added. */
  readonly logprobs: readonly number[];
  /** The first prompt that did not continue the ids before it: the row ends there. Absent: there is none. */
  readonly tokenBreak?: TokenBreak;
  readonly chatCompletions: readonly ChatMessage[];
  readonly metrics: TokenMetrics;
}

export interface TokenMetrics {
  readonly steps: number;
  /** Milliseconds in reset, step, reward and close. */
  readonly envTimeMs: number;
  readonly llmTimeMs: number;
  readonly totalTimeMs: number;
  /** 1: see `tokenBreak`. */
  readonly tokenMismatch: 0 | 1;
}

export interface TokenOptions extends ResultOptions {
  /** A row with a break trains nothing. False: what is before the break is trained. Default true. */
  readonly filterTokenMismatch?: boolean | undefined;
  /** The row is cut there. Default: not at all. */
  readonly maxResponseLength?: number | undefined;
}

export function toTextResult(episode: Episode, options: ResultOptions = {}): TextResult {
  return { ...trajectoryOf(episode, options), ...headOf(episode, options) };
}

export function toStepsResult(episode: Episode, options: ResultOptions = {}): StepsResult {
  const { steps } = trajectoryOf(episode, options);
  return { ...headOf(episode, options), steps, mcReturns: steps.map(({ mcReturn }) => mcReturn) };
}

export function toConversationResult(episode: Episode, options: ResultOptions = {}): ConversationResult {
  const { steps } = trajectoryOf(episode, options);
  const messages = steps.at(-1)?.chatCompletions ?? [];
  return { ...headOf(episode, options), messages, isCumulative: isCumulative(steps) };
}

/** @throws WhetstoneError FAILED_PRECONDITION when a step has no ids: the episode was played without `returnTokenIds`. */
export function toTokenResult(episode: Episode, options: TokenOptions = {}): TokenResult {
  const head = headOf(episode, options);
  const { steps } = trajectoryOf(episode, options);
  const { tokenBreak, ...row } = assembleTokens(steps, options.maxResponseLength);
  const broken = tokenBreak !== undefined && (options.filterTokenMismatch ?? true);
  const responseMasks =
    head.voided || head.masked || broken ? row.responseMasks.map(() => 0 as const) : row.responseMasks;
  const { environmentMs, modelMs, totalMs } = episode.timing;
  const times = { envTimeMs: environmentMs, llmTimeMs: modelMs, totalTimeMs: totalMs };
  return {
    ...head,
    ...row,
    responseMasks,
    ...(tokenBreak === undefined ? {} : { tokenBreak }),
    chatCompletions: steps.at(-1)?.chatCompletions ?? [],
    metrics: { steps: steps.length, ...times, tokenMismatch: tokenBreak === undefined ? 0 : 1 },
  };
}

/** Each step's conversation begins with the whole of the step's before, message by message. */
export function isCumulative(steps: readonly Pick<Step, "chatCompletions">[]): boolean {
  return steps.every(({ chatCompletions }, i) => {
    const before = steps[i - 1]?.chatCompletions ?? [];
    return before.every((message, at) => sameMessage(message, chatCompletions[at]));
  });
}

function sameMessage(a: ChatMessage, b: ChatMessage | undefined): boolean {
  return b !== undefined && (a === b || JSON.stringify(a) === JSON.stringify(b));
}

function headOf(episode: Episode, { idx = 0, role, deadlinePolicy }: ResultOptions): ResultHead {
  const { id, task, seed, terminationReason, failure, masked, isCorrect } = episode;
  const trajectoryReward = trajectoryOf(episode, { role }).reward;
  const voided = !isScored(episode, deadlinePolicy);
  return { idx, id, task, seed, terminationReason, failure, voided, masked, trajectoryReward, isCorrect };
}

function trajectoryOf({ trajectories }: Episode, { role }: ResultOptions): Trajectory {
  const found = role === undefined ? trajectories[0] : trajectories.find(({ name }) => name === role);
  return found ?? createTrajectory();
}
