// SPDX-License-Identifier: Apache-2.0
// Ids by words are the tokenizer's own: texts of all kinds, asked for once and again, beside a tokenizer as it comes.
import * as huggingface from "@huggingface/tokenizers";
import fc from "fast-check";
import { expect, it } from "vitest";
import { encoderOf } from "./word-encoder.ts";

interface Tokenizer {
  encode(text: string, options: object): { ids: number[] };
}

const { Tokenizer } = huggingface as unknown as { Tokenizer: new (tokenizer: object, config: object) => Tokenizer };

/** Every byte as a letter, in the order of GPT-2. */
const LETTERS = Array.from({ length: 0x144 }, (_, code) => String.fromCodePoint(code)).filter(
  (letter, code) => /[!-~¡-¬®-ÿ]/.test(letter) || code >= 0x100,
);
const MERGES = ["t h", "th e", "Ġ a", "Ġ the", "i n", "Ġ Ġ", "1 2", "Ã ©", "' s"].map((pair) => pair.split(" "));
const QWEN = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const PRE_TOKENIZERS: [string, object][] = [
  ["GPT-2's", { type: "ByteLevel", add_prefix_space: false, use_regex: true }],
  ["with a space before the text", { type: "ByteLevel", add_prefix_space: true, use_regex: true }],
  [
    "Qwen's",
    {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: QWEN }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, use_regex: false },
      ],
    },
  ],
];

function tokenizerOf(preTokenizer: object): Tokenizer {
  const words = [...LETTERS, ...MERGES.map((pair) => pair.join(""))];
  const vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  const model = { type: "BPE", vocab, merges: MERGES, unk_token: null, byte_fallback: false };
  const marks = [
    { id: words.length, content: "<|end|>", special: true, normalized: false, lstrip: false, rstrip: false },
  ];
  return new Tokenizer(
    {
      model,
      pre_tokenizer: preTokenizer,
      decoder: { type: "ByteLevel" },
      post_processor: null,
      normalizer: null,
      added_tokens: marks,
    },
    {},
  );
}

const text = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "the",
        "in",
        "a",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "'s",
        "'S",
        "12",
        "é",
        "<|end|>",
        "x".repeat(80),
        "…",
      ),
      fc.string({ unit: "grapheme" }),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(""));

const ids = (tokenizer: Tokenizer, of: string): number[] => tokenizer.encode(of, { add_special_tokens: false }).ids;

it.each(PRE_TOKENIZERS)("gives the tokenizer's own ids: one %s", (_name, preTokenizer) => {
  const [plain, encode] = [tokenizerOf(preTokenizer), encoderOf(tokenizerOf(preTokenizer))];
  fc.assert(
    fc.property(text, (of) => {
      const expected = ids(plain, of);
      expect(encode(of)).toEqual(expected);
      expect(encode(of)).toEqual(expected);
    }),
    { numRuns: 500 },
  );
});

it("forgets words, and then learns them anew", () => {
  const [plain, encode] = [tokenizerOf(PRE_TOKENIZERS[0]![1]), encoderOf(tokenizerOf(PRE_TOKENIZERS[0]![1]))];
  const letter = (digit: string): string => "abcdefghij"[Number(digit)]!;
  const words = Array.from({ length: 70_000 }, (_, i) => ` ${`${i}`.replaceAll(/\d/g, letter)}`);
  const first = words.slice(0, 500).join("");
  for (const of of [first, words.join(""), first]) encode(of);
  expect(encode(first)).toEqual(ids(plain, first));
});
