// SPDX-License-Identifier: Apache-2.0
// The tiny byte-level tokenizer with the chat template, and the special tokens, of a real family of models.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TINY } from "./harness.ts";

interface Family {
  readonly eos: string;
  /** In the order of their ids, from FIRST_MARK on. */
  readonly special: readonly string[];
  /** Tokens of their own that are part of the text. */
  readonly added?: readonly string[];
}

export const FAMILIES = {
  "qwen2.5": { eos: "<|im_end|>", special: ["<|im_end|>", "<|im_start|>"], added: ["<tool_call>", "</tool_call>"] },
  qwen3: {
    ...{ eos: "<|im_end|>", special: ["<|im_end|>", "<|im_start|>"] },
    added: ["<tool_call>", "</tool_call>", "<think>", "</think>"],
  },
  "llama3.1": {
    eos: "<|eot_id|>",
    special: ["<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"],
  },
} satisfies Record<string, Family>;

/** Ids 0 to 261 are bytes and the tiny model's own marks. The family's end of turn is the first after them. */
export const FIRST_MARK = 262;

interface AddedToken {
  id: number;
  content: string;
  special: boolean;
}

/** Writes a model folder without weights; its path. */
export function templatedModel(parent: string, name: keyof typeof FAMILIES): string {
  const folder = join(parent, name);
  mkdirSync(folder, { recursive: true });
  const { eos, special, added = [] }: Family = FAMILIES[name];
  const read = (file: string) => JSON.parse(readFileSync(join(TINY, file), "utf8")) as Record<string, unknown>;
  const tokenizer = read("tokenizer.json") as { added_tokens: AddedToken[]; model: { vocab: Record<string, number> } };
  const own = [...special, ...added].map((content, i) => {
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return { id: FIRST_MARK + i, content, ...flags, special: special.includes(content) };
  });
  tokenizer.added_tokens.push(...own);
  const template = readFileSync(fileURLToPath(new URL(`templates/${name}.jinja`, import.meta.url)), "utf8");
  const config = { ...read("tokenizer_config.json"), eos_token: eos, bos_token: "", chat_template: template };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(config));
  return folder;
}

/** A text as ids of such a model; marks are one id each. */
export function idsOf(name: keyof typeof FAMILIES, text: string): number[] {
  const { special, added = [] }: Family = FAMILIES[name];
  const marks = [...special, ...added];
  const pattern = new RegExp(`(${marks.map((mark) => mark.replace(/[|/.[\]]/g, "\\$&")).join("|")})`);
  return text.split(pattern).flatMap((part) => {
    const at = marks.indexOf(part);
    return at >= 0 ? [FIRST_MARK + at] : [...Buffer.from(part)];
  });
}

/** The text of such ids, marks included. */
export function textOf(name: keyof typeof FAMILIES, ids: readonly number[]): string {
  const { special, added = [] }: Family = FAMILIES[name];
  const marks = [...special, ...added];
  const parts: Buffer[] = [];
  let start = 0;
  for (const [i, id] of ids.entries()) {
    if (id < FIRST_MARK) continue;
    parts.push(Buffer.from(ids.slice(start, i)), Buffer.from(marks[id - FIRST_MARK] ?? ""));
    start = i + 1;
  }
  return Buffer.concat([...parts, Buffer.from(ids.slice(start))]).toString("utf8");
}
