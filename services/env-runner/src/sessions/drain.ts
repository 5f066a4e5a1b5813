// SPDX-License-Identifier: Apache-2.0
import { onAbort, WhetstoneError } from "@whetstone/core";

// D1: while it drains no session is opened. D2: at the deadline what is open is handed back, never before. D3: a deadline
// that was said once is not moved later; only an order to end, which is final, can bring it forward.

/** Whether this runner takes sessions, and until when those that it has may go on. */
export class Drain {
  #handBack = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #endsAt: number | undefined;
  #final = false;
  readonly #onChange: (draining: boolean) => void;

  constructor(onChange: (draining: boolean) => void = () => undefined) {
    this.#onChange = onChange;
  }

  get draining(): boolean {
    return this.#endsAt !== undefined;
  }

  /** @param deadlineMs  from now */
  start(deadlineMs: number): void {
    const endsAt = performance.now() + deadlineMs;
    if (this.#endsAt !== undefined && this.#endsAt <= endsAt) return; // D3
    const isNew = this.#endsAt === undefined;
    this.#endsAt = endsAt;
    clearTimeout(this.#timer);
    if (deadlineMs <= 0) this.#giveUp();
    else this.#timer = setTimeout(() => this.#giveUp(), deadlineMs).unref();
    if (isNew) this.#onChange(true);
  }

  /** The process is to end: from now on nothing takes it back. */
  end(deadlineMs: number): void {
    this.#final = true;
    this.start(deadlineMs);
  }

  undo(): void {
    if (this.#final || this.#endsAt === undefined) return;
    clearTimeout(this.#timer);
    this.#endsAt = undefined;
    this.#handBack = new AbortController();
    this.#onChange(false);
  }

  /** Calls when sessions are to be handed back; dispose it when the session is over. */
  watch(handBack: () => void): Disposable {
    return { [Symbol.dispose]: onAbort(this.#handBack.signal, handBack) };
  }

  #giveUp(): void {
    this.#handBack.abort(new WhetstoneError("HANDED_BACK", "this env-runner goes"));
  }
}
