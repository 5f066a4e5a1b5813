// SPDX-License-Identifier: Apache-2.0
import * as huggingface from "@huggingface/tokenizers";
import type { AnswerReader, ReaderOptions } from "../completion/answer.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools, TemplateVariables } from "../completion/request.ts";
import type { PromptCodec } from "../sessions/continuation.ts";
import { AnswerScanner } from "../formats/answer-scanner.ts";
import { type AnswerFormat, marksOf } from "../formats/format.ts";
import { formatOf, PLAIN } from "../formats/index.ts";
import { Lru } from "../lru.ts";
import { ChatTemplate } from "./chat-template.ts";
import { encoderOf } from "./word-encoder.ts";

/** The part we use: the package's own types import without file extensions, which strict module resolution refuses. */
interface Tokenizer {
  decode(ids: number[], options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean }): string;
  id_to_token(id: number): string | undefined;
  token_to_id(token: string): number | undefined;
}

const { Tokenizer } = huggingface as unknown as { Tokenizer: new (tokenizer: object, config: object) => Tokenizer };

/** Entries of each cache. Agents ask the same short things again and again, e.g. the states of a small game. */
const CACHE_ENTRIES = 4096;
/** Longer texts are not cached: they hardly repeat, and they would make the caches' memory unbounded. */
const CACHE_MAX_CHARS = 4096;
/** Of each cache, characters and ids of all entries: some MiB, whatever clients send. */
const CACHE_WEIGHT = 1 << 20;
const CACHE_MAX_MESSAGES = 64;
const WEIGHED = {
  limit: CACHE_WEIGHT,
  of: (key: string, value: { readonly length: number }): number => key.length + value.length,
};

/** Text and ids of one model: exactly what Hugging Face transformers makes of the same folder. */
export class ModelCodec implements PromptCodec {
  readonly endOfTurn: string;
  /** Tokens that end an answer, as tokenizer_config.json and generation_config.json name them. */
  readonly eosIds: ReadonlySet<number>;
  /** What ends a turn in a text: the tokens of `eosIds`, and `endOfTurn` where none of them is in it. */
  readonly endMarks: readonly string[];
  /** How the model writes thoughts and calls of tools. */
  readonly format: AnswerFormat;
  readonly #tokenizer: Tokenizer;
  readonly #encode: (text: string) => number[];
  readonly #template: ChatTemplate;
  readonly #rendered = new Lru<string, string>(CACHE_ENTRIES, WEIGHED);
  readonly #encoded = new Lru<string, readonly number[]>(CACHE_ENTRIES, WEIGHED);
  /** Special tokens that are marks of the format: without them nobody could tell a call from text. */
  readonly #markIds: ReadonlySet<number>;
  readonly #specialIds: ReadonlySet<number>;

  /** @param answerFormat  see formatOf. @throws Error when the tokenizer or the template cannot be built, or a plain conversation cannot be rendered. */
  constructor(
    tokenizer: object,
    config: Record<string, unknown>,
    template: string,
    { generationEos, answerFormat }: { generationEos?: unknown; answerFormat?: string | undefined } = {},
  ) {
    this.#tokenizer = new Tokenizer(tokenizer, config);
    this.#encode = encoderOf(this.#tokenizer);
    const special = specialTokens(config);
    this.#template = new ChatTemplate(template, special);
    this.eosIds = this.#eosIds(special["eos_token"], generationEos);
    this.render([{ role: "user", content: "x" }]);
    this.endOfTurn = this.#probeEndOfTurn();
    const ends = [...this.eosIds].map((id) => this.tokenText(id)).filter((text) => text !== "");
    const isCovered = this.endOfTurn === "" || ends.some((end) => this.endOfTurn.includes(end));
    this.endMarks = isCovered ? ends : [...ends, this.endOfTurn];
    this.format = formatOf(template, answerFormat);
    this.#specialIds = specialIdsOf(tokenizer);
    const marks = marksOf(this.format).map((mark) => this.#tokenizer.token_to_id(mark));
    this.#markIds = new Set(
      marks.filter((id) => id !== undefined && this.#specialIds.has(id) && !this.eosIds.has(id)) as number[],
    );
  }

  /** Reads answers as the model writes them. */
  reader(options: ReaderOptions): AnswerReader {
    return new AnswerScanner(options.isRaw === true ? PLAIN : this.format, options);
  }

  /** What a call of that tool, or of any, begins with; undefined: the format cannot be made to call. */
  forcedCall(tool: string | undefined): string | undefined {
    return this.format.forced?.(tool);
  }

  render(messages: readonly TemplateMessage[], tools?: Tools, variables?: TemplateVariables): string {
    const print = (): string => this.#template.render(messages, tools, { ...variables, add_generation_prompt: true });
    // Long conversations are not written down only to find that they are too long to be kept.
    if (messages.length > CACHE_MAX_MESSAGES || lengthOf(messages) > CACHE_MAX_CHARS) return print();
    const plain = tools === undefined && variables === undefined;
    const key = JSON.stringify(plain ? messages : [messages, tools, variables]);
    const known = this.#rendered.get(key);
    if (known !== undefined) return known;
    const text = print();
    if (key.length <= CACHE_MAX_CHARS) this.#rendered.set(key, text);
    return text;
  }

  /** The conversation as text, without a generation prompt: ends with the last message. */
  renderClosed(messages: readonly TemplateMessage[], tools?: Tools): string {
    return this.#template.render(messages, tools, { add_generation_prompt: false });
  }

  encode(text: string): readonly number[] {
    const known = this.#encoded.get(text);
    if (known !== undefined) return known;
    const ids = this.#encode(text);
    if (text.length <= CACHE_MAX_CHARS) this.#encoded.set(ownCopy(text), ids);
    return ids;
  }

  /** The text of sampled ids without special tokens, except those that mark thoughts and calls. Ids beyond the vocabulary (a padded embedding) have no text. */
  decode(ids: readonly number[]): string {
    const known = ids.filter((id) => this.#tokenizer.id_to_token(id) !== undefined);
    if (known.length === 0) return "";
    if (this.#markIds.size > 0) return this.#decodeMarked(known);
    return this.#tokenizer.decode(known, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
  }

  #decodeMarked(ids: readonly number[]): string {
    const kept = ids.filter((id) => this.#markIds.has(id) || !this.#specialIds.has(id));
    if (kept.length === 0) return "";
    return this.#tokenizer.decode(kept, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
  }

  /** The text of one token, special or not. */
  tokenText(id: number): string {
    if (this.#tokenizer.id_to_token(id) === undefined) return "";
    return this.#tokenizer.decode([id], { skip_special_tokens: false, clean_up_tokenization_spaces: false });
  }

  #eosIds(eosToken: string | undefined, generationEos: unknown): Set<number> {
    const ids = [generationEos].flat().filter((id): id is number => typeof id === "number");
    const own = eosToken === undefined ? undefined : this.#tokenizer.token_to_id(eosToken);
    return new Set(own === undefined ? ids : [own, ...ids]);
  }

  /** Some templates refuse such a conversation or rewrite it; then nothing is known about the end of a turn. */
  #probeEndOfTurn(): string {
    const probe = "end-of-turn-probe";
    try {
      const text = this.renderClosed([
        { role: "user", content: "x" },
        { role: "assistant", content: probe },
      ]);
      const at = text.lastIndexOf(probe);
      return at < 0 ? "" : text.slice(at + probe.length);
    } catch {
      return "";
    }
  }
}

/** What is new in a long conversation is a slice of it, which would keep the whole in memory. */
function ownCopy(text: string): string {
  return ` ${text}`.slice(1);
}

function lengthOf(messages: readonly TemplateMessage[]): number {
  return messages.reduce((sum, { content }) => sum + (content?.length ?? 0), 0);
}

/** Ids that tokenizer.json calls special. */
function specialIdsOf(tokenizer: object): Set<number> {
  const { added_tokens: added = [] } = tokenizer as { added_tokens?: { id: number; special?: boolean }[] };
  return new Set(added.filter(({ special }) => special === true).map(({ id }) => id));
}

/** `bos_token`, `eos_token` and so on, as text: what transformers hands to templates. */
function specialTokens(config: Record<string, unknown>): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]) {
    const value = config[name] as string | { content?: unknown } | null | undefined;
    const text = typeof value === "object" ? value?.content : value;
    if (typeof text === "string") found[name] = text;
  }
  return found;
}
