// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools } from "../completion/request.ts";

/** An answer that a client may say something of. */
export interface AnsweredCall {
  readonly serving: string;
  /** Name of the key that it was asked with. */
  readonly key: string;
  readonly weights: string;
  /** "<policy>:<version>" of its last token. */
  readonly label: string;
  /** With the answer at its end. */
  readonly conversation: readonly TemplateMessage[];
  readonly tools: Tools | undefined;
}

export interface Said {
  readonly id: string;
  readonly serving: string;
  readonly task: string;
}

/** How long, and of how many answers, feedback is taken. */
const KEPT_MS = 3_600_000;
const MAX_ANSWERS = 10_000;
const MAX_CHARS = 64 * 1024 * 1024;
const MAX_WAITING = 1_000;
const MOST_AT_ONCE = 256;

interface Kept {
  readonly call: AnsweredCall;
  readonly atMs: number;
  readonly chars: number;
}

interface Waiting {
  readonly said: Said;
  readonly stored: () => void;
}

/**
 * What clients of served policies say of answers, until the controller has stored it. Answers are kept in memory, bounded in
 * number, size and time: the oldest go first.
 */
export class FeedbackBox {
  readonly #answers = new Map<string, Kept>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #idPrefix: string;
  #chars = 0;
  #count = 0;

  /** @param idPrefix  makes ids unique across restarts and replicas */
  constructor(idPrefix: string) {
    this.#idPrefix = idPrefix;
  }

  /** @param id  by which the client knows the answer */
  keep(id: string, call: AnsweredCall, nowMs: number): void {
    const chars = JSON.stringify(call.conversation).length;
    this.#answers.set(id, { call, atMs: nowMs, chars });
    this.#chars += chars;
    for (const [oldest, { atMs }] of this.#answers) {
      if (this.#answers.size <= MAX_ANSWERS && this.#chars <= MAX_CHARS && nowMs - atMs <= KEPT_MS) break;
      this.#drop(oldest);
    }
  }

  /**
   * Resolves when it is stored. Until then it can be said again, which stores it twice.
   * @throws ApiError 404 where the answer is not known, or not of this serving, 503 where too much waits
   */
  say(
    serving: string,
    about: { id: string; reward: number; comment?: string | undefined },
    nowMs: number,
  ): Promise<void> {
    const kept = this.#answers.get(about.id);
    if (kept === undefined || kept.call.serving !== serving || nowMs - kept.atMs > KEPT_MS)
      throw unknownAnswer(about.id);
    if (this.#waiting.size >= MAX_WAITING) throw tooMuch();
    const id = `${this.#idPrefix}${this.#count++}`;
    const task = JSON.stringify(taskOf(kept.call, id, about, nowMs));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(id, { said: { id, serving, task }, stored: resolve });
    return promise;
  }

  /** @param stored  ids that nobody has to store any more */
  take(stored: readonly string[]): Said[] {
    for (const id of stored) {
      this.#waiting.get(id)?.stored();
      this.#waiting.delete(id);
    }
    return [...this.#waiting.values()].slice(0, MOST_AT_ONCE).map(({ said }) => said);
  }

  #drop(id: string): void {
    this.#chars -= this.#answers.get(id)?.chars ?? 0;
    this.#answers.delete(id);
  }
}

/** A task of a data set: SFT imitates the conversation, and the rest is there to choose by. */
function taskOf(
  { conversation, tools, key, weights, label }: AnsweredCall,
  id: string,
  { id: answer, reward, comment }: { id: string; reward: number; comment?: string | undefined },
  nowMs: number,
) {
  const said = { reward, ...(comment !== undefined && { comment }) };
  const payload = { ...said, answer, key, weights, label, at: new Date(nowMs).toISOString() };
  return { id, demonstration: conversation, ...(tools && { tools }), payload };
}

function unknownAnswer(id: string): ApiError {
  const message = `no answer "${id}" is known here: feedback is taken for an hour, by the gateway that answered`;
  return new ApiError("NOT_FOUND", "unknown_answer", message, { param: "id" });
}

function tooMuch(): ApiError {
  return new ApiError("UNAVAILABLE", "feedback_waits", "too much feedback waits to be stored", { retryAfterS: 2 });
}
