// SPDX-License-Identifier: Apache-2.0
import { splitThinking } from "@whetstone/sdk";

/**
 * Where an answer may stand. `marked`: in `\boxed{}`, `<answer>` tags, behind `####`, "Answer:" or "the answer is", in this
 * order, the last of a kind. `lastNumber`: else the last number. `whole`: else all of a short text.
 */
export type Extraction = "marked" | "lastNumber" | "whole";

const MAX_WHOLE_CHARACTERS = 300;

/** The final answer in a model's text, after its thinking. Undefined: it gave none, which is never right. */
export function extractAnswer(text: string, extraction: Extraction = "marked"): string | undefined {
  const { answer } = splitThinking(text);
  const found = boxed(answer) ?? tagged(answer) ?? hashed(answer) ?? announced(answer);
  if (found !== undefined) return found;
  if (extraction === "lastNumber") return lastNumber(answer);
  return extraction === "whole" && answer.length <= MAX_WHOLE_CHARACTERS ? nonEmpty(answer) : undefined;
}

const BOX = /\\(?:boxed|fbox)\s*/gu;
/** Boxes that are looked at: the last ones. */
const MAX_PARTS = 50;
/** What may stand between the parts of one answer: "\boxed{1} and \boxed{2}", "\boxed{(1, 2)}, \quad \boxed{(3, 4)}". */
const BETWEEN_BOXES = /^(?:[\s$,;&]|\\[()[\]]|\\q?quad|\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b)*$/u;

/**
 * The content of the last `\boxed{…}` or `\fbox{…}` with balanced braces, together with those before it that only a comma or
 * "and" separates from it; `\boxed 5` without braces counts, too.
 */
export function boxed(text: string): string | undefined {
  const boxes = [...text.matchAll(BOX)]
    .slice(-MAX_PARTS)
    .map(({ index, 0: all }) => ({ index, ...contentAt(text, index + all.length) }));
  const last = boxes.at(-1);
  if (last?.content === undefined) return undefined;
  const first = boxes.findLastIndex(({ index }, i) => {
    const before = boxes[i - 1];
    return before?.content === undefined || !BETWEEN_BOXES.test(text.slice(before.end, index));
  });
  return boxes
    .slice(first)
    .map(({ content }) => content)
    .join(", ");
}

function contentAt(text: string, start: number): { readonly content: string | undefined; readonly end: number } {
  if (text.charAt(start) !== "{") {
    const word = /^[^\s$\\.,]+/u.exec(text.slice(start))?.[0] ?? "";
    return { content: nonEmpty(word), end: start + word.length };
  }
  const length = closingBrace(text.slice(start));
  return length < 0
    ? { content: undefined, end: text.length }
    : { content: nonEmpty(text.slice(start + 1, start + length)), end: start + length + 1 };
}

function closingBrace(text: string): number {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (character === "\\") at += 1;
    else if (character === "{") depth += 1;
    else if (character === "}" && --depth === 0) return at;
  }
  return -1;
}

function tagged(text: string): string | undefined {
  const end = text.lastIndexOf("</answer>");
  const start = end < 0 ? -1 : text.lastIndexOf("<answer>", end);
  return start < 0 ? undefined : nonEmpty(text.slice(start + "<answer>".length, end));
}

/** GSM8K: "#### 42". */
function hashed(text: string): string | undefined {
  const at = text.lastIndexOf("####");
  return at < 0 ? undefined : nonEmpty(firstLine(text.slice(at + 4)));
}

const ANNOUNCED = /\banswer\b[^\S\n]*(?:\*\*)?[^\S\n]*(?::|=|is\b:?)/giu;

/** The rest of the last line with "Answer:" or "the answer is", up to the end of its sentence. */
function announced(text: string): string | undefined {
  let end = -1;
  for (const match of text.matchAll(ANNOUNCED)) end = match.index + match[0].length;
  if (end < 0) return undefined;
  const line = firstLine(text.slice(end).replace(/^\s*(?:\*\*)?\s*/u, ""));
  return nonEmpty(line.replace(/[.!?]\s.*$/u, "").replace(/\*\*$/u, ""));
}

const NUMBER = /(?<![\d.A-Za-z])-?\$?\d+(?:,\d{3})*(?:\.\d+)?(?:\s*\/\s*\d+)?%?/gu;

/** A number in a formula is not the answer, the formula is: "\frac{1+\sqrt5}{2}" is not 2. */
function lastNumber(text: string): string | undefined {
  const last = [...text.matchAll(NUMBER)].at(-1);
  return last && (formulaAt(text, last.index) ?? last[0]);
}

const DISPLAYED = /\$+([^$]+)\$+|\\\(([\s\S]*?)\\\)|\\\[([\s\S]*?)\\\]/gu;
const COMMAND = /\\[A-Za-z]/u;

/** The formula with a LaTeX command that the place is in: between $…$, \(…\) or \[…\], else up to the next spaces. */
function formulaAt(text: string, at: number): string | undefined {
  const displayed = [...text.matchAll(DISPLAYED)].find(({ index, 0: all }) => index <= at && at < index + all.length);
  const formula = displayed ? (displayed[1] ?? displayed[2] ?? displayed[3] ?? "") : wordAt(text, at);
  return COMMAND.test(formula) ? nonEmpty(formula.replace(/[.,;:!?\s]+$/u, "")) : undefined;
}

/** What stands between spaces that are in no braces. */
function wordAt(text: string, at: number): string {
  let [start, depth] = [0, 0];
  for (let end = 0; end < text.length; end += 1) {
    const character = text.charAt(end);
    if (character === "{") depth += 1;
    else if (character === "}") depth = Math.max(0, depth - 1);
    else if (depth === 0 && /\s/u.test(character)) {
      if (end > at) return text.slice(start, end);
      start = end + 1;
    }
  }
  return text.slice(start);
}

function firstLine(text: string): string {
  return text.trimStart().split("\n", 1)[0] ?? "";
}

function nonEmpty(text: string): string | undefined {
  const trimmed = text.trim();
  return trimmed === "" ? undefined : trimmed;
}
