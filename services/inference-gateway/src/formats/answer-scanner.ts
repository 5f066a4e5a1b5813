// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { AnswerPart, AnswerReader, ReaderOptions } from "../completion/answer.ts";
import type { AnswerFormat, CallBlock, ReadCall } from "./format.ts";

type Mark = { readonly text: string; readonly block?: CallBlock; readonly thoughts?: "open" | "close" };

/**
 * Reads an answer in one format, whole or bit by bit: the same text in other bits gives the same answer. Text is handed on
 * as soon as no mark can begin in it; space before a call, and around thoughts, belongs to the format and is left out.
 */
export class AnswerScanner implements AnswerReader {
  readonly #format: AnswerFormat;
  readonly #options: ReaderOptions;
  readonly #marks: readonly Mark[];
  readonly #firstBlocks: readonly CallBlock[];
  #state: "content" | "thoughts" | CallBlock = "content";
  #pending = "";
  /** Space that is left out if a call, or the end of thoughts, follows. */
  #space = "";
  /** Space that comes next belongs to the marks before it. */
  #skipSpace = false;
  #begun = false;
  #calls = 0;

  constructor(format: AnswerFormat, options: ReaderOptions) {
    const blocks = options.tools === undefined ? [] : format.blocks;
    this.#format = format;
    this.#options = options;
    this.#firstBlocks = blocks.filter(({ first }) => first === true);
    this.#marks = marksFor(format, blocks);
    const open = format.thoughts?.open;
    if (open === undefined || !options.promptText.trimEnd().endsWith(open)) return;
    this.#state = "thoughts";
    this.#skipSpace = true;
  }

  push(text: string): AnswerPart[] {
    this.#pending += text;
    return this.#read(false);
  }

  end(cut: boolean): AnswerPart[] {
    const parts = this.#read(!cut);
    const rest = typeof this.#state === "object" ? this.#state.open + this.#pending : this.#pending;
    const kind = this.#state === "thoughts" ? "thoughts" : "content";
    this.#pending = "";
    parts.push(...this.#text(kind, rest));
    // Space at the very end is the model's own, unless a call or its thoughts end there.
    if (this.#space !== "" && kind === "content" && this.#calls === 0 && !this.#skipSpace)
      parts.push({ kind: "content", text: this.#space });
    return parts;
  }

  #read(ended: boolean): AnswerPart[] {
    const parts: AnswerPart[] = [];
    for (let more = true; more;)
      more =
        typeof this.#state === "object" ? this.#readBlock(this.#state, ended, parts) : this.#readText(ended, parts);
    return parts;
  }

  /** Goes on to the next mark. @returns false when nothing more can be said without further text. */
  #readText(ended: boolean, parts: AnswerPart[]): boolean {
    const kind = this.#state === "thoughts" ? "thoughts" : "content";
    const first = kind === "content" && !this.#begun ? this.#readFirst(ended) : undefined;
    if (first !== undefined) return first;
    const marks = this.#marksIn(kind);
    const found = earliest(this.#pending, marks);
    const next = found?.at ?? this.#pending.length - (ended ? 0 : undecided(this.#pending, marks));
    const unsure = found !== undefined && !ended && mayGrow(this.#pending.slice(next), marks);
    const text = this.#pending.slice(0, next);
    this.#pending = this.#pending.slice(next);
    parts.push(...this.#text(kind, text));
    if (found === undefined || unsure) return false;
    this.#pending = this.#pending.slice(found.mark.text.length);
    this.#pass(found.mark);
    return true;
  }

  /** As #readText, where a block may begin with a mark of plain text; undefined: none does. */
  #readFirst(ended: boolean): boolean | undefined {
    const trimmed = this.#pending.trimStart();
    const block = this.#firstBlocks.find(({ open }) => trimmed.startsWith(open));
    if (block !== undefined) return this.#enter(block, trimmed.slice(block.open.length));
    return !ended && this.#firstBlocks.some(({ open }) => open.startsWith(trimmed)) ? false : undefined;
  }

  /** Calls begin inside of thoughts too: they end them. */
  #marksIn(kind: "content" | "thoughts"): readonly Mark[] {
    return kind === "content"
      ? this.#marks
      : this.#marks.filter(({ block, thoughts }) => block ?? thoughts === "close");
  }

  #pass({ block, thoughts }: Mark): void {
    if (block !== undefined) {
      this.#enter(block, this.#pending);
      return;
    }
    if (thoughts === undefined) return;
    this.#state = thoughts === "open" ? "thoughts" : "content";
    this.#space = "";
    this.#skipSpace = true;
  }

  #enter(block: CallBlock, rest: string): true {
    this.#state = block;
    this.#space = "";
    this.#pending = rest;
    return true;
  }

  #readBlock(block: CallBlock, ended: boolean, parts: AnswerPart[]): boolean {
    const at = endOf(block, this.#pending);
    if (at < 0 && !ended) return false;
    const { inner, after } = cutAt(block, this.#pending, at);
    this.#pending = after;
    this.#state = "content";
    const calls = block.read(inner, this.#options.tools ?? new Map());
    const areNamed = calls.length > 0 && calls.every(({ name }) => name !== undefined);
    const mark = at < 0 ? "" : (block.close ?? "");
    parts.push(
      ...(areNamed ? calls.flatMap((call) => this.#call(call)) : this.#text("content", block.open + inner + mark)),
    );
    if (areNamed) [this.#begun, this.#skipSpace] = [true, true];
    return at >= 0;
  }

  #call({ name = "", arguments: args, malformed, id }: ReadCall): AnswerPart[] {
    const number = this.#calls++;
    if (number > 0 && !this.#options.parallelCalls) return [];
    return [{ kind: "call", call: { id: id ?? this.#callId(number), name, arguments: args, malformed } }];
  }

  #callId(number: number): string {
    const digest = createHash("sha256").update(`${this.#options.requestId}/${number}`).digest("hex");
    const chars = this.#format.idChars;
    return chars === undefined ? `call_${digest.slice(0, 24)}` : digest.slice(0, chars);
  }

  #text(kind: "content" | "thoughts", text: string): AnswerPart[] {
    const own = this.#skipSpace ? text.trimStart() : text;
    if (own === "") return [];
    this.#skipSpace = false;
    const whole = this.#space + own;
    const kept = whole.trimEnd();
    this.#space = whole.slice(kept.length);
    if (kept === "") return [];
    if (kind === "content") this.#begun = true;
    return [{ kind: kind === "content" ? "content" : "reasoning", text: kept }];
  }
}

/** Where a block ends; -1: not yet. A mark that plain text may hold ends nothing. */
function endOf({ open, close, first }: CallBlock, text: string): number {
  if (close !== undefined) return text.indexOf(close);
  return first === true ? -1 : text.indexOf(open);
}

/** A block's inside, and what comes after its mark. @param end  -1: it is not closed. */
function cutAt({ close = "" }: CallBlock, text: string, end: number): { inner: string; after: string } {
  return end < 0 ? { inner: text, after: "" } : { inner: text.slice(0, end), after: text.slice(end + close.length) };
}

function marksFor({ dropped = [], thoughts }: AnswerFormat, blocks: readonly CallBlock[]): Mark[] {
  const opening = blocks.filter(({ first }) => first !== true).map((block) => ({ text: block.open, block }));
  const around = thoughts && [
    { text: thoughts.open, thoughts: "open" as const },
    { text: thoughts.close, thoughts: "close" as const },
  ];
  return [...opening, ...(around ?? []), ...dropped.map((text) => ({ text }))];
}

/** The mark that comes first; of several at one place the longest. */
function earliest(text: string, marks: readonly Mark[]): { at: number; mark: Mark } | undefined {
  let best: { at: number; mark: Mark } | undefined;
  for (const mark of marks) {
    const at = text.indexOf(mark.text);
    if (at < 0 || (best && (at > best.at || (at === best.at && mark.text.length <= best.mark.text.length)))) continue;
    best = { at, mark };
  }
  return best;
}

/** A longer mark may be about to stand where a shorter one does already. */
function mayGrow(text: string, marks: readonly Mark[]): boolean {
  return marks.some((mark) => mark.text.length > text.length && mark.text.startsWith(text));
}

/** How many characters at the end may be the beginning of a mark. */
function undecided(text: string, marks: readonly Mark[]): number {
  const longest = Math.max(0, ...marks.map((mark) => mark.text.length));
  for (let size = Math.min(longest - 1, text.length); size > 0; size--) {
    const tail = text.slice(text.length - size);
    if (marks.some((mark) => mark.text.startsWith(tail))) return size;
  }
  return 0;
}
