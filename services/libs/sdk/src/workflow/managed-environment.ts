// SPDX-License-Identifier: Apache-2.0
import type { Awaitable, Environment, ResetOptions, ResetResult, StepOptions, StepResult } from "../base-env.ts";
import type { OpenedEnvironment } from "./context.ts";
import type { Session } from "./session.ts";

export type Maker = () => Awaitable<Environment>;

/** An environment in a workflow's hands: its calls are bounded, timed and placed, and it is closed once. */
export class ManagedEnvironment implements OpenedEnvironment {
  /** Without the bounds, for those who set their own. */
  readonly inner: Environment;
  isClosed = false;
  readonly #session: Session;

  constructor(session: Session, inner: Environment) {
    this.#session = session;
    this.inner = inner;
  }

  reset(options: Partial<ResetOptions> = {}): Promise<ResetResult> {
    const { run, signal } = this.#session;
    return this.#session.phase("reset", signal, () => this.inner.reset({ seed: run.seed, signal, ...options }));
  }

  step(action: unknown, options: StepOptions = {}): Promise<StepResult> {
    const { signal } = this.#session;
    return this.#session.phase("step", signal, () => this.inner.step(action, { signal, ...options }));
  }

  async finalReward(): Promise<number | undefined> {
    const { inner } = this;
    if (inner.computeFinalReward === undefined) return undefined;
    const { signal } = this.#session;
    return this.#session.phase("reward", signal, () => inner.computeFinalReward?.({ signal }) ?? 0);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.inner.close();
  }
}
