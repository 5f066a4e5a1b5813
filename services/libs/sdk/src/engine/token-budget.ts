// SPDX-License-Identifier: Apache-2.0
import type { TerminationReason } from "../failure.ts";
import type { Usage } from "../rollout-client.ts";

export interface TokenLimits {
  /** Of the first prompt, or of every prompt with `eachStep`. */
  readonly maxPromptLength: number;
  /** After the first prompt, sampled and observed together; of each call's answer with `eachStep`. */
  readonly maxResponseLength: number;
  /** rLLM's `enforce_max_prompt_length`. */
  readonly eachStep: boolean;
}

/**
 * Counts from the server's exact usage. What follows the first prompt is what was sampled plus what each later prompt adds
 * to the call before it; an agent that keeps no history adds nothing but its answers.
 */
export class TokenBudget {
  readonly #limits: TokenLimits;
  #used = 0;
  #calls = 0;
  #lastTotal = 0;

  constructor(limits: TokenLimits) {
    this.#limits = limits;
  }

  /** Tokens after the first prompt. */
  get used(): number {
    return this.#used;
  }

  /** Most tokens of the next answer; 0 or less: none are left. */
  get left(): number {
    return this.#limits.maxResponseLength - (this.#limits.eachStep ? 0 : this.#used);
  }

  /** Longest next prompt. Undefined: only the response budget bounds it. */
  get promptLimit(): number | undefined {
    return this.#limits.eachStep || this.#calls === 0 ? this.#limits.maxPromptLength : undefined;
  }

  /** @returns MAX_PROMPT_LENGTH when the prompt that was just answered was too long. */
  count({ promptTokens, completionTokens }: Usage): TerminationReason | undefined {
    const limit = this.promptLimit;
    const observed = this.#calls === 0 ? 0 : Math.max(0, promptTokens - this.#lastTotal);
    this.#used += observed + completionTokens;
    this.#lastTotal = promptTokens + completionTokens;
    this.#calls += 1;
    return limit !== undefined && promptTokens > limit ? "MAX_PROMPT_LENGTH" : undefined;
  }
}
