// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";

/** So many steps of about a microsecond each may run before others have their turn. */
const STEPS = 1_000;

/** For loops over up to millions of things: `if (breath.due()) await breath.take()` lets timers and requests in between. */
export class Breath {
  #steps = 0;

  /** Counts a step. True each thousandth time. */
  due(): boolean {
    this.#steps++;
    return this.#steps % STEPS === 0;
  }

  async take(): Promise<void> {
    await turn();
  }
}
