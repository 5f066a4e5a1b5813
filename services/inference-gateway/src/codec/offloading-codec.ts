// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";
import type { AnswerReader, ReaderOptions } from "../completion/answer.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools, TemplateVariables } from "../completion/request.ts";
import type { Codec } from "../completion/complete.ts";
import type { CodecThread } from "./codec-thread.ts";
import type { RenderTask } from "./codec-thread-main.ts";
import type { ModelCodec } from "./model-codec.ts";

/** At most 30 ms of tokenising: below that a thread is not worth its way, above it other requests would wait. */
const LONG_TEXT_CHARS = 16_384;
/** What a template prints costs by its messages, 15 to 30 µs each, and hardly by their length. */
const MANY_MESSAGES = 512;
const LONG_CONVERSATION_CHARS = 262_144;

/** Works on short texts at once and on long ones in a thread: tokenising takes a second for every 600,000 characters. */
export class OffloadingCodec implements Codec {
  readonly #codec: ModelCodec;
  readonly #thread: CodecThread;

  constructor(codec: ModelCodec, thread: CodecThread) {
    this.#codec = codec;
    this.#thread = thread;
  }

  get endOfTurn(): string {
    return this.#codec.endOfTurn;
  }

  get eosIds(): ReadonlySet<number> {
    return this.#codec.eosIds;
  }

  get endMarks(): readonly string[] {
    return this.#codec.endMarks;
  }

  reader(options: ReaderOptions): AnswerReader {
    return this.#codec.reader(options);
  }

  forcedCall(tool: string | undefined): string | undefined {
    return this.#codec.forcedCall(tool);
  }

  render(messages: readonly TemplateMessage[], tools?: Tools, variables?: TemplateVariables): string | Promise<string> {
    if (!isLong(messages, tools, variables)) return this.#codec.render(messages, tools, variables);
    return this.#rendered({ kind: "render", conversation: JSON.stringify([messages, tools, variables]) });
  }

  renderClosed(messages: readonly TemplateMessage[], tools?: Tools): string | Promise<string> {
    if (!isLong(messages, tools)) return this.#codec.renderClosed(messages, tools);
    return this.#rendered({ kind: "render-closed", conversation: JSON.stringify([messages, tools]) });
  }

  encode(text: string): readonly number[] | Promise<readonly number[]> {
    return text.length <= LONG_TEXT_CHARS ? this.#codec.encode(text) : this.#encoded(text);
  }

  decode(ids: readonly number[]): string {
    return this.#codec.decode(ids);
  }

  tokenText(id: number): string {
    return this.#codec.tokenText(id);
  }

  async #rendered(task: RenderTask): Promise<string> {
    const result = await this.#thread.run(task);
    return "text" in result ? result.text : "";
  }

  async #encoded(text: string): Promise<readonly number[]> {
    const result = await this.#thread.run({ kind: "encode", text });
    return "ids" in result ? await numbersOf(result.ids) : [];
  }
}

/** Ids that are copied between two turns of others: millions would keep them waiting for a second. */
const COPIED_AT_ONCE = 65_536;

export async function numbersOf(ids: Uint32Array): Promise<number[]> {
  const numbers = new Array<number>(ids.length);
  for (let start = 0; start < ids.length; start += COPIED_AT_ONCE) {
    const end = Math.min(start + COPIED_AT_ONCE, ids.length);
    for (let i = start; i < end; i++) numbers[i] = ids[i] as number;
    await turn();
  }
  return numbers;
}

/** Adds up no further than it must. */
function isLong(messages: readonly TemplateMessage[], tools?: Tools, variables?: TemplateVariables): boolean {
  if (messages.length > MANY_MESSAGES) return true;
  let chars = tools === undefined && variables === undefined ? 0 : JSON.stringify([tools, variables]).length;
  for (const message of messages) {
    chars += message.content?.length ?? 0;
    if (message["tool_calls"] !== undefined) chars += JSON.stringify(message["tool_calls"]).length;
    if (chars > LONG_CONVERSATION_CHARS) return true;
  }
  return chars > LONG_CONVERSATION_CHARS;
}
