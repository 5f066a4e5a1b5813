// SPDX-License-Identifier: Apache-2.0
import type { Awaitable, Environment, ResetOptions, ResetResult, StepOptions, StepResult } from "../base-env.ts";
import type { EpisodeRun } from "../engine/options.ts";
import { gradeEnvironment, resetEnvironment, stepEnvironment } from "../environment-values.ts";
import type { OpenedEnvironment } from "./context.ts";
import type { Phase } from "../failure.ts";

export interface PhaseOptions {
  /** Default: the attempt's. */
  readonly signal?: AbortSignal;
  /** Milliseconds that the phase has used already. */
  readonly spentMs?: number;
}

/** Bounds, times and places what is done in a try. */
interface Phases {
  readonly run: EpisodeRun;
  phase<T>(phase: Phase, work: (signal: AbortSignal) => Awaitable<T>, options?: PhaseOptions): Promise<T>;
}

/** An environment in a workflow's hands: its calls are bounded, timed and placed, and it is closed once. */
export class ManagedEnvironment implements OpenedEnvironment {
  /** Without the bounds, for those who set their own. */
  readonly inner: Environment;
  isClosed = false;
  readonly #phases: Phases;
  /** Opening and resetting have one bound together. */
  #openedMs: number;

  constructor(phases: Phases, inner: Environment, openedMs: number) {
    this.#phases = phases;
    this.inner = inner;
    this.#openedMs = openedMs;
  }

  /** What a first reset has less. */
  takeOpenedMs(): number {
    const openedMs = this.#openedMs;
    this.#openedMs = 0;
    return openedMs;
  }

  reset(options: Partial<ResetOptions> = {}): Promise<ResetResult> {
    const { seed } = this.#phases.run;
    const spentMs = this.takeOpenedMs();
    return this.#phases.phase("reset", (signal) => resetEnvironment(this.inner, { seed, signal, ...options }), {
      spentMs,
    });
  }

  step(action: unknown, options: StepOptions = {}): Promise<StepResult> {
    return this.#phases.phase("step", (signal) => stepEnvironment(this.inner, action, { signal, ...options }));
  }

  async finalReward(): Promise<number | undefined> {
    const { inner } = this;
    if (inner.computeFinalReward === undefined) return undefined;
    return this.#phases.phase("reward", (signal) => gradeEnvironment(inner, { signal }) ?? 0);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.inner.close();
  }
}
