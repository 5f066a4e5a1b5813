// SPDX-License-Identifier: Apache-2.0
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { WhetstoneError } from "@whetstone/core";
import type { PreparedState, SandboxBackend } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";

interface Held {
  readonly state: Promise<PreparedState>;
  uses: number;
}

/** A sandbox needs its state for as long as it is open. */
export interface BorrowedState extends AsyncDisposable {
  readonly state: PreparedState;
}

/** States that nobody uses now, and that are kept all the same. */
const MOST_IDLE = 8;

/** What sandboxes of tasks begin with where there are no images: a folder each, by the task's id. */
export class StateStore implements AsyncDisposable {
  readonly #folder: string;
  readonly #backend: SandboxBackend;
  /** The one that was used last stands last. */
  readonly #held = new Map<string, Held>();

  constructor(folder: string, backend: SandboxBackend) {
    this.#folder = folder;
    this.#backend = backend;
  }

  /** The state of a task, until it is given back. @throws EpisodeError INFRASTRUCTURE that says what is missing */
  async borrow(id: string): Promise<BorrowedState> {
    const held = this.#held.get(id) ?? { state: this.#prepare(id), uses: 0 };
    held.uses += 1;
    this.#held.delete(id);
    this.#held.set(id, held);
    const giveBack = async (): Promise<void> => {
      held.uses -= 1;
      await this.#closeIdle();
    };
    try {
      return { state: await held.state, [Symbol.asyncDispose]: giveBack };
    } catch (error) {
      held.uses -= 1;
      if (this.#held.get(id) === held) this.#held.delete(id);
      throw this.#missing(id, error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const states = await Promise.allSettled([...this.#held.values()].map(({ state }) => state));
    this.#held.clear();
    for (const each of states) if (each.status === "fulfilled") await each.value[Symbol.asyncDispose]();
  }

  async #prepare(id: string): Promise<PreparedState> {
    const folder = join(this.#folder, id);
    if (!(await stat(folder)).isDirectory()) throw new WhetstoneError("NOT_FOUND", `${folder} is no folder`);
    return this.#backend.prepare(folder);
  }

  #missing(id: string, cause: unknown): EpisodeError {
    const why = WhetstoneError.from(cause).message;
    const what = `the state of ${id} in ${this.#folder} cannot be used: ${why}; it is a folder with what /workspace holds at first`;
    return new EpisodeError("INFRASTRUCTURE", what, { cause });
  }

  async #closeIdle(): Promise<void> {
    const idle = [...this.#held].filter(([, { uses }]) => uses === 0);
    for (const [id, { state }] of idle.slice(0, Math.max(0, idle.length - MOST_IDLE))) {
      this.#held.delete(id);
      await (await state)[Symbol.asyncDispose]();
    }
  }
}
