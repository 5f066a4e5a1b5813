// SPDX-License-Identifier: Apache-2.0
/**
 * What is done to answers while they run. How fast an engine samples and how busy the machine is must not decide a check: an
 * answer that came to its own end first shows nothing, and it is tried again.
 */
import { sleep } from "@whetstone/core";

import { Skipped } from "../run-checks.ts";
import { ENDS_WITHIN_MS, type Engine } from "./engine.ts";
import type { RunningAnswer } from "./running-answer.ts";

/** By how much the answers are longer than at first, and how many run beside them, so that each step takes longer. */
const ATTEMPTS = [
  { longer: 1, beside: 0 },
  { longer: 4, beside: 16 },
  { longer: 16, beside: 56 },
] as const;
/** An engine that looks so often as if it had ignored what it was told has: once may be chance, where the machine is busy. */
const IGNORED_ATTEMPTS = 2;
/** An engine that has answered so many calls that were made later has heard of what it was told. */
const LATER_CALLS = 3;
const LOOKS_EVERY_MS = 20;

export interface WatchedAnswers {
  readonly count: number;
  /** What the answers may be too short for: "a pause arrives". */
  readonly until: string;
}

/** An attempt that showed nothing. The message says what is wrong with an engine that has ignored what it was told. */
class Missed extends Error {
  /** Most of the answer came after the engine must have heard. */
  readonly isIgnored: boolean;

  constructor(message: string, isIgnored: boolean) {
    super(message);
    this.isIgnored = isIgnored;
  }
}

/**
 * @param act  gets answers that have just begun; throws what `Attempt.missed` makes when one was over before it could be acted on
 * @throws Skipped when no attempt showed anything
 * @throws Error when the engine ignored what it was told
 */
export async function whileRunning<T>(
  engine: Engine,
  { count, until }: WatchedAnswers,
  act: (attempt: Attempt) => Promise<T>,
): Promise<T> {
  let ignored = 0;
  let length = 0;
  for (const { longer, beside } of ATTEMPTS) {
    length = longestOf(engine, longer);
    const seen = await tryOnce(engine, { length, count, beside }, act);
    if (!(seen instanceof Missed)) return seen;
    ignored += Number(seen.isIgnored);
    if (ignored === IGNORED_ATTEMPTS) throw new Error(seen.message);
    await engine.resume();
  }
  throw new Skipped(`its answers of ${length} tokens end before ${until}`);
}

async function tryOnce<T>(engine: Engine, size: Size, act: (attempt: Attempt) => Promise<T>): Promise<T | Missed> {
  await engine.settle();
  using attempt = await Attempt.start(engine, size);
  try {
    return await act(attempt);
  } catch (error) {
    if (error instanceof Missed) return error;
    throw error;
  }
}

function longestOf({ facts }: Engine, longer: number): number {
  return Math.min(facts.longAnswer * longer, facts.maxLength - facts.prompt.length - 1);
}

interface Size {
  /** Of each answer, in tokens. */
  readonly length: number;
  readonly count: number;
  readonly beside: number;
}

export class Attempt implements Disposable {
  readonly length: number;
  /** They have all begun. */
  readonly answers: readonly RunningAnswer[];
  readonly #others: readonly RunningAnswer[];
  readonly #engine: Engine;
  /** What the engine had sampled before them. */
  readonly #sampledBefore: number;
  #lengthsWhenHeard: ReadonlyMap<RunningAnswer, number> = new Map();

  private constructor(engine: Engine, { length, count, beside }: Size, sampledBefore: number) {
    const start = (): RunningAnswer => engine.start(engine.facts.prompt, { max_tokens: length });
    this.#engine = engine;
    this.#sampledBefore = sampledBefore;
    this.length = length;
    this.answers = Array.from({ length: count }, start);
    this.#others = Array.from({ length: beside }, start);
    // An engine may refuse what is too many for it.
    for (const other of this.#others) other.end().catch(() => undefined);
  }

  static async start(engine: Engine, size: Size): Promise<Attempt> {
    const attempt = new Attempt(engine, size, await engine.metric("generation_tokens_total"));
    await Promise.all(attempt.answers.map(({ begun }) => begun));
    return attempt;
  }

  /** All that run. */
  get all(): readonly RunningAnswer[] {
    return [...this.answers, ...this.#others];
  }

  /** Tells the engine something, and sees how far the answers are when it must have heard, whether or not it has replied. */
  async tell(call: () => unknown): Promise<void> {
    await Promise.all([call(), this.#hear()]);
  }

  /** Of an answer that went on to its own end. @param complaint  what is wrong if the engine has ignored what it was told */
  missed(answer: RunningAnswer, complaint: string): Error {
    const heard = this.#lengthsWhenHeard.get(answer) ?? 0;
    return this.missedTokens(answer.tokens - heard, this.length, complaint);
  }

  /** @param later  of so many tokens those that came after the engine must have heard */
  missedTokens(later: number, tokens: number, complaint: string): Error {
    return new Missed(complaint, later > tokens / 2);
  }

  /** That it was over when the engine must have heard. */
  wasOver(answer: RunningAnswer): boolean {
    return (this.#lengthsWhenHeard.get(answer) ?? 0) >= this.length;
  }

  /** Tokens of all of them that the engine counts. */
  async sampled(): Promise<number> {
    return (await this.#engine.metric("generation_tokens_total")) - this.#sampledBefore;
  }

  /** Waits, while nothing is sampled, for tokens on their way: on a busy machine they may come long after the pause. */
  async arrive(): Promise<void> {
    const sampled = await this.sampled();
    const end = performance.now() + ENDS_WITHIN_MS;
    const arrived = (): number => this.all.reduce((sum, { tokens }) => sum + tokens, 0);
    while (arrived() < sampled && performance.now() < end) await sleep(LOOKS_EVERY_MS);
  }

  /** Nothing is to take longer any more. */
  leaveOthers(): void {
    for (const other of this.#others) other.leave();
  }

  [Symbol.dispose](): void {
    for (const answer of this.all) answer.leave();
  }

  async #hear(): Promise<void> {
    for (let call = 0; call < LATER_CALLS; call += 1) await this.#engine.api.get("/health");
    this.#lengthsWhenHeard = new Map(this.answers.map((answer) => [answer, answer.tokens]));
  }
}
