// SPDX-License-Identifier: Apache-2.0
import type { ChainLink } from "./chain.ts";

/** What an engine gets: the ids of a conversation so far, and new ones. Those so far are neither copied nor written anew. */
export class PromptIds {
  readonly #before: ChainLink | undefined;
  readonly #fresh: readonly number[];

  constructor(before: ChainLink | undefined, fresh: readonly number[]) {
    this.#before = before;
    this.#fresh = fresh;
  }

  get length(): number {
    return (this.#before?.length ?? 0) + this.#fresh.length;
  }

  /** With further ids behind them. */
  with(further: readonly number[]): PromptIds {
    return further.length === 0 ? this : new PromptIds(this.#before, this.#fresh.concat(further));
  }

  all(): number[] {
    return (this.#before?.ids() ?? []).concat(this.#fresh);
  }

  /** In order the parts of a JSON array, brackets excepted. */
  json(): Uint8Array[] {
    const before = this.#before?.json() ?? NOTHING;
    const fresh = Buffer.from(this.#fresh.join(","), "latin1");
    return before.length > 0 && fresh.length > 0 ? [before, COMMA, fresh] : [before, fresh];
  }
}

const NOTHING = new Uint8Array();
const COMMA = Buffer.from(",");
