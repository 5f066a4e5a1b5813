// SPDX-License-Identifier: Apache-2.0
import { NoRoomError, sleep } from "@whetstone/core";

/** Sessions at once. Nobody queues here: callers wait at home, where their deadline is known. */
export class Slots {
  readonly total: number;
  #used = 0;
  #onIdle: () => void = () => undefined;

  constructor(total: number) {
    this.total = total;
  }

  get used(): number {
    return this.#used;
  }

  /** Resolves when no session is open, or after this time. For one caller. */
  async idle(withinMs: number): Promise<void> {
    if (this.#used === 0) return;
    const stop = new AbortController();
    await Promise.race([
      new Promise<void>((resolve) => (this.#onIdle = resolve)),
      sleep(withinMs, stop.signal).catch(() => undefined),
    ]);
    stop.abort();
  }

  /** @throws NoRoomError */
  take(): Disposable {
    if (this.#used >= this.total)
      throw new NoRoomError(`all ${this.total} environment slots are in use`, { slots: this.total });
    this.#used += 1;
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (held) this.#used -= 1;
        held = false;
        if (this.#used === 0) this.#onIdle();
      },
    };
  }
}
