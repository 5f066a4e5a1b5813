import { BaseEnv, type ResetResult, type StepResult } from "@whetstone/sdk";

/** What may be asked for, and which characters count. */
const WANTED = { letters: /[a-z]/gi, digits: /[0-9]/g } as const;
type Kind = keyof typeof WANTED;

export interface TypingOptions {
  /** From the task: decides which kind comes first. */
  readonly seed?: number;
  /** Questions an episode. */
  readonly turns?: number;
}

/**
 * Asks for letters or digits in turn, and pays the share of the answer that is of the kind asked for. One instance plays
 * one episode: keep state in fields, never in the module.
 */
export class TypingEnv extends BaseEnv {
  readonly #first: number;
  readonly #turns: number;
  #turn = 0;
  #total = 0;

  constructor({ seed = 0, turns = 2 }: TypingOptions = {}) {
    super();
    this.#first = seed;
    this.#turns = turns;
  }

  reset(): ResetResult {
    this.#turn = 0;
    this.#total = 0;
    return { observation: this.#question(), info: {} };
  }

  /** @param action  the agent's text. */
  step(action: unknown): StepResult {
    const share = shareOf(this.#question(), String(action));
    this.#turn += 1;
    this.#total += share;
    const terminated = this.#turn >= this.#turns;
    const success = this.#total / this.#turns >= 0.9;
    return {
      observation: terminated ? "" : this.#question(),
      reward: share / this.#turns,
      terminated,
      truncated: false,
      info: terminated ? { success } : {},
    };
  }

  #question(): Kind {
    return (this.#first + this.#turn) % 2 === 0 ? "letters" : "digits";
  }
}

function shareOf(kind: Kind, text: string): number {
  return text === "" ? 0 : (text.match(WANTED[kind]) ?? []).length / [...text].length;
}
