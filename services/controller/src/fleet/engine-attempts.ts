// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Engine } from "@whetstone/proto/inference/v1/inference";

/** Waits between attempts at one engine, milliseconds: doubled each time. An engine that is away may be back any time. */
const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = { away: 2_000, refused: 10_000 };
/** Refusals of the same weights after which an engine is believed. */
const BELIEVED_AFTER = 6;
/** Failures after which people are told. */
const TOLD_AFTER = 2;
/** A refusal that is none of the weights' fault: the machine may have room again. */
const PASSING = /no space left|ENOSPC|out of memory/i;

interface Attempts {
  /** What was to be served; another policy starts anew. */
  readonly of: string;
  readonly failed: number;
  /** In a row, with an answer: the engine is there and does not take the weights. */
  readonly refused: number;
  readonly words: string;
  readonly notBeforeMs: number;
}

/** What became of the attempts to make engines serve a policy; times are milliseconds of `performance.now()`. */
export class EngineAttempts {
  readonly #attempts = new Map<string, Attempts>();
  readonly #firstWaitMs: number;

  constructor(firstWaitMs = FIRST_WAIT_MS) {
    this.#firstWaitMs = firstWaitMs;
  }

  /** Whether the engine may be tried now. */
  isDue(engine: string, policy: string, nowMs: number): boolean {
    const last = this.#of(engine, policy);
    return last === undefined || nowMs >= last.notBeforeMs;
  }

  succeeded(engine: string): void {
    this.#attempts.delete(engine);
  }

  failed(engine: string, policy: string, error: unknown, nowMs: number): void {
    const last = this.#of(engine, policy);
    const isRefusal = isRefused(error);
    const failed = (last?.failed ?? 0) + 1;
    const longest = isRefusal ? LONGEST_WAIT_MS.refused : LONGEST_WAIT_MS.away;
    this.#attempts.set(engine, {
      of: policy,
      failed,
      refused: isRefusal ? (last?.refused ?? 0) + 1 : 0,
      words: WhetstoneError.from(error).message,
      notBeforeMs: nowMs + Math.min(longest, this.#firstWaitMs * 2 ** (failed - 1)),
    });
  }

  /** What the engines say, once every one of them has refused the policy often enough. Undefined: it may still be served. */
  verdict(engines: readonly Engine[], policy: string): string | undefined {
    const all = engines.map(({ id }) => ({ id, last: this.#of(id, policy) }));
    if (all.length === 0 || all.some(({ last }) => (last?.refused ?? 0) < BELIEVED_AFTER)) return undefined;
    return all.map(({ id, last }) => `${id}: ${last?.words}`).join("; ");
  }

  /** Whether an engine has refused the policy more than once. */
  isRefused(engines: readonly Engine[], policy: string): boolean {
    return engines.some(({ id }) => (this.#of(id, policy)?.refused ?? 0) >= TOLD_AFTER);
  }

  /** What engines said that failed more than once; a first failure may be over at the next attempt. Empty: none did. */
  behind(engines: readonly Pick<Engine, "id">[], policy: string): string {
    const all = engines.map(({ id }) => ({ id, last: this.#of(id, policy) }));
    return all
      .filter(({ last }) => (last?.failed ?? 0) >= TOLD_AFTER)
      .map(({ id, last }) => `${id}: ${last?.words}`)
      .join("; ");
  }

  /** What they refused is another thing now. */
  forgetAll(): void {
    this.#attempts.clear();
  }

  keepOnly(engines: readonly Engine[]): void {
    const ids = new Set(engines.map(({ id }) => id));
    for (const id of this.#attempts.keys()) if (!ids.has(id)) this.#attempts.delete(id);
  }

  #of(engine: string, policy: string): Attempts | undefined {
    const last = this.#attempts.get(engine);
    return last?.of === policy ? last : undefined;
  }
}

/** The engine answered, and the answer was no. */
function isRefused(error: unknown): boolean {
  const { code, message } = WhetstoneError.from(error);
  return (code === "ENGINE_FAILED" || code === "CONTRACT_VIOLATION") && !PASSING.test(message);
}
