// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createRng } from "@whetstone/core";

const DOCS = join(import.meta.dirname, "../../../docs");

/** Markdown that the vocabulary is learned from, and whose words prompts are made of. */
export function markdown(): string[] {
  return readdirSync(DOCS)
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(DOCS, name));
}

/** Texts of a given length, each of other words: no two are alike, nor begin alike. */
export class Prompts {
  readonly #words = markdown().flatMap((file) => readFileSync(file, "utf8").split(/\s+/).filter(Boolean));
  readonly #rng: ReturnType<typeof createRng>;
  #count = 0;

  constructor(seed: number) {
    this.#rng = createRng(seed);
  }

  next(chars: number): string {
    let text = `${this.#count++}`;
    while (text.length < chars) text += ` ${this.#words[Math.floor(this.#rng.next() * this.#words.length)]}`;
    return text.slice(0, chars);
  }
}
