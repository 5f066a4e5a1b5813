// SPDX-License-Identifier: Apache-2.0
import { RememberedAnswers } from "../completion/earlier-answers.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { SamplingTerms } from "../completion/client-sampling.ts";
import type { CallRecord } from "./call-record.ts";
import { MessageTree } from "./message-tree.ts";

/** The calls that share one name, as a tree over their messages. */
export class Session {
  readonly name: string;
  readonly calls: CallRecord[] = [];
  readonly earlier = new RememberedAnswers();
  readonly tree = new MessageTree();
  /** The policies it used; ForgetPolicy drops it by them. */
  readonly policies = new Set<string>();
  /** Requests that are being answered, and calls running for them; such a session is never idle. */
  running = 0;
  /** It is on its way to another replica: whoever asks for it waits until this resolves. Undefined: it is not. */
  moving: Promise<void> | undefined;
  readonly #idle: (() => void)[] = [];
  lastUsedMs: number;
  /** The key that names it; undefined: none was issued. */
  key: string | undefined;
  /** What its calls are sampled with; undefined: with what the client asks for. */
  terms: SamplingTerms | undefined;
  /** Its calls go where the prefix cache is warm. */
  lastEngineId = "";
  /** Labels only grow (I5): a session never goes back to an older version than it has seen. */
  maxVersion = -1n;
  #nextIndex: number;

  constructor(name: string, nowMs: number, nextIndex = 0) {
    this.name = name;
    this.lastUsedMs = nowMs;
    this.#nextIndex = nextIndex;
  }

  /** The place of a call in the order of arrival. A call that fails leaves a gap. */
  takeIndex(): number {
    return this.#nextIndex++;
  }

  /** The order of arrival of the next call. */
  get nextIndex(): number {
    return this.#nextIndex;
  }

  /** Adds an answered call; `messages` are those it was asked with, `key` that of the message by which a client echoes it. */
  add(call: CallRecord, messages: readonly TemplateMessage[], key: string): void {
    this.tree.add(call, messages, key);
    this.calls.push(call);
  }

  /** A request that concerns it is answered from here to `end`: until then it goes nowhere. */
  begin(): void {
    this.running++;
  }

  end(): void {
    this.running--;
    if (this.running > 0) return;
    for (const tell of this.#idle.splice(0)) tell();
  }

  /** Resolves when nothing runs: before anything else can begin. */
  async idle(): Promise<void> {
    if (this.running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }
}
