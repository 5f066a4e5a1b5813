// SPDX-License-Identifier: Apache-2.0
// An environment that is mostly waited for, as a browser or a test suite is.
import { setTimeout as sleep } from "node:timers/promises";
import { BaseEnv, type ResetOptions, type ResetResult, type StepResult } from "@whetstone/sdk";

const TURNS = 4;

/** Pays for every letter L, after a while. */
export class SlowLetters extends BaseEnv {
  readonly #waitMs: number;
  #turn = 0;

  constructor({ waitMs = 400 }: { waitMs?: number }) {
    super();
    this.#waitMs = waitMs;
  }

  reset({ seed }: ResetOptions): ResetResult {
    return { observation: `task ${seed % 7}`, info: {} };
  }

  async step(action: unknown): Promise<StepResult> {
    await sleep(this.#waitMs);
    this.#turn += 1;
    const reward = String(action).includes("L") ? 1 : 0.1 * (String(action).length % 3);
    return { observation: "again", reward, terminated: this.#turn >= TURNS, truncated: false, info: {} };
  }
}
