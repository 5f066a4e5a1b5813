// SPDX-License-Identifier: Apache-2.0
// A byte-level BPE (GPT-2's, Qwen's, Llama 3's) spends most of its time on words it has seen before: it writes each one's bytes as
// letters, looks that up in a cache that is put in order at each look, and each token again for its id. Here a word leads to its
// ids at one look; what is new goes the tokenizer's own way.

/** Words that are kept, at least; at most twice as many. */
const WORDS = 32_768;
/** Longer ones hardly repeat. */
const MAX_CHARS = 64;

type Encode = (text: string) => number[];

interface ByteLevel {
  readonly config: { readonly type?: string; readonly add_prefix_space?: boolean };
  readonly use_regex: boolean;
  readonly pattern: RegExp;
  pre_tokenize_text(text: string): string[];
}

/** What @huggingface/tokenizers 0.2 is made of, as far as it is needed. */
interface Parts {
  readonly pre_tokenizer?: (ByteLevel & { readonly tokenizers?: readonly ByteLevel[] }) | null;
  readonly added_tokens_map: ReadonlyMap<string, { readonly id: number }>;
  readonly model: {
    readonly config: { readonly type?: string };
    readonly fuse_unk: boolean;
    readonly tokens_to_ids: ReadonlyMap<string, number>;
    encode(words: readonly string[]): string[] | number[];
  };
  encode(text: string, options: { add_special_tokens: false }): { ids: number[] };
  /** Parts a text at its added tokens, and gives the rest to pre-tokenizer and model. */
  encode_text(text: string): (string | number)[];
}

/** How to make ids of a text; special tokens in it included, none added. The tokenizer is good for nothing but this and decoding then. */
export function encoderOf(tokenizer: object): Encode {
  const { pre_tokenizer: whole, model, ...parts } = tokenizer as Parts;
  const last = whole?.tokenizers === undefined ? whole : whole.tokenizers.at(-1);
  const isPlain = last?.config?.type === "ByteLevel" && last.config.add_prefix_space !== true && !model.fuse_unk;
  if (model.config.type !== "BPE" || !isPlain)
    return (text) => (tokenizer as Parts).encode(text, { add_special_tokens: false }).ids;
  modelOfWords(last, model);
  const idOf = (part: string | number): number =>
    typeof part === "number" ? part : (parts.added_tokens_map.get(part)?.id ?? -1);
  return (text) => (tokenizer as Parts).encode_text(text).map(idOf);
}

/** Words go on to the model as they are, which spells those that it does not know, and answers with ids. */
function modelOfWords(last: ByteLevel, model: Parts["model"]): void {
  const [spell, encode] = [last.pre_tokenize_text.bind(last), model.encode.bind(model)];
  const known = new WordIds();
  const idsOf = (word: string): readonly number[] => {
    const found = known.get(word);
    if (found !== undefined) return found;
    // Parted anew, a word that was made of spaces before another might come out as several.
    const tokens = encode([spell(word).join("")]) as string[];
    const ids = tokens.map((token) => model.tokens_to_ids.get(token) ?? -1);
    if (word.length <= MAX_CHARS) known.set(word, ids);
    return ids;
  };
  last.pre_tokenize_text = (text) => (last.use_regex ? (text.match(last.pattern) ?? []) : [text]);
  model.encode = (words) => {
    const ids: number[] = [];
    for (const word of words) for (const id of idsOf(word)) ids.push(id);
    return ids;
  };
}

/** Forgets the half that was not used for longest, at once: to keep an order among all costs more than to learn some anew. */
class WordIds {
  #young = new Map<string, readonly number[]>();
  #old = new Map<string, readonly number[]>();

  get(word: string): readonly number[] | undefined {
    const young = this.#young.get(word);
    if (young !== undefined) return young;
    const old = this.#old.get(word);
    if (old !== undefined) this.set(word, old);
    return old;
  }

  set(word: string, ids: readonly number[]): void {
    this.#young.set(word, ids);
    if (this.#young.size < WORDS) return;
    this.#old = this.#young;
    this.#young = new Map();
  }
}
