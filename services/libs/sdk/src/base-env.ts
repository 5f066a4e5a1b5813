// SPDX-License-Identifier: Apache-2.0
import type { ImagePart } from "./images.ts";
import type { Info } from "./types.ts";

export type Awaitable<T> = T | Promise<T>;

export interface ResetOptions {
  /** Integer in [0, 2^53): the same seed and arguments give the same episode. */
  readonly seed: number;
  readonly signal?: AbortSignal | undefined;
}

export interface StepOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ResetResult {
  readonly observation: unknown;
  /** Pictures beside it, in order, 16 at most. Absent: none. */
  readonly images?: readonly ImagePart[] | undefined;
  readonly info: Info;
}

/** Gymnasium's meaning. */
export interface StepResult {
  readonly observation: unknown;
  /** As of `ResetResult`. */
  readonly images?: readonly ImagePart[] | undefined;
  /** Absent: none given yet (graded at the end). */
  readonly reward?: number | undefined;
  /** The episode reached its end. */
  readonly terminated: boolean;
  /** The environment's own limit ended it. */
  readonly truncated: boolean;
  /** `success` (boolean) is the verdict, where there is one. */
  readonly info: Info;
}

/** What the engine plays against: an instance of BaseEnv in this process, or a session with a remote one. */
export interface Environment {
  reset(options: ResetOptions): Awaitable<ResetResult>;
  step(action: unknown, options: StepOptions): Awaitable<StepResult>;
  /** Called once, on every path, even when `reset` failed. */
  close(): Awaitable<void>;
  /** Replaces the last step's reward. */
  computeFinalReward?(options: StepOptions): Awaitable<number>;
}

/** One instance plays one episode. State lives in the instance, never in the module: 1,000 of them run side by side. */
export abstract class BaseEnv implements Environment {
  abstract reset(options: ResetOptions): Awaitable<ResetResult>;
  abstract step(action: unknown, options: StepOptions): Awaitable<StepResult>;

  close(): Awaitable<void> {
    return undefined;
  }

  computeFinalReward?(options: StepOptions): Awaitable<number>;
}

export function isDone(result: Pick<StepResult, "terminated" | "truncated">): boolean {
  return result.terminated || result.truncated;
}
