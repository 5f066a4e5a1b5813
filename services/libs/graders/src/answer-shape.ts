// SPDX-License-Identifier: Apache-2.0

/** How an answer is put together. Elements of lists are again shapes where they have brackets. */
export type AnswerShape =
  | { readonly kind: "single"; readonly text: string }
  /** Of a chain, "x = 1 + 1 = 2", the first side and the last. "0 < x ≤ 1" has two operators, and the name in the middle. */
  | { readonly kind: "relation"; readonly operator: string; readonly left: string; readonly right: string }
  | { readonly kind: "between"; readonly name: string; readonly interval: AnswerShape }
  | {
      readonly kind: "list";
      /** "()", "[)", "⦃⦄", "∪", "matrix"; "" for a bare list. */
      readonly brackets: string;
      readonly ordered: boolean;
      readonly elements: readonly Element[];
    };

export type Element = string | AnswerShape;

const MAX_ELEMENTS = 50;
const MAX_NESTING = 4;

/** @param text  cleaned by `cleanLatex`. */
export function parseShape(text: string, nesting = 0): AnswerShape {
  const single: AnswerShape = { kind: "single", text };
  if (nesting > MAX_NESTING) return single;
  const shape = matrix(text, nesting) ?? union(text, nesting) ?? bracketed(text, nesting) ?? bareList(text, nesting);
  return shape ?? plusMinus(text, nesting) ?? between(text, nesting) ?? relation(text) ?? single;
}

function list(brackets: string, ordered: boolean, parts: readonly string[], nesting: number): AnswerShape | undefined {
  if (parts.length > MAX_ELEMENTS || parts.some((part) => part.trim() === "")) return undefined;
  const elements = parts.map((part): Element => {
    const shape = parseShape(part.trim(), nesting + 1);
    return shape.kind === "single" ? shape.text : shape;
  });
  return { kind: "list", brackets, ordered, elements };
}

/** `\begin{pmatrix} 1 & 2 ⏎ 3 & 4 \end{pmatrix}`; the kind of brackets does not matter. */
function matrix(text: string, nesting: number): AnswerShape | undefined {
  const match = /^\\begin\{([pbvB]?)matrix\}(.*)\\end\{\1matrix\}$/u.exec(text);
  if (match === null) return undefined;
  const rows = (match[2] as string).split("⏎").filter((row) => row.trim() !== "");
  const columns = rows.map((row) => row.split("&"));
  return list(`matrix ${columns.map((row) => row.length).join(" ")}`, true, columns.flat(), nesting);
}

function union(text: string, nesting: number): AnswerShape | undefined {
  const parts = splitTop(text, "∪");
  return parts.length < 2 ? undefined : list("∪", false, parts, nesting);
}

/** Tuples and intervals keep their order, sets do not. Brackets around one element only group. */
function bracketed(text: string, nesting: number): AnswerShape | undefined {
  const [open, close] = [text.charAt(0), text.at(-1) ?? ""];
  const isSet = open === "⦃" && close === "⦄";
  if (!isSet && !((open === "(" || open === "[") && (close === ")" || close === "]"))) return undefined;
  if (closingOf(text, 0) !== text.length - 1) return undefined;
  const parts = splitList(text.slice(1, -1));
  if (parts.length < 2 && !isSet) return undefined;
  return list(open + close, !isSet, parts, nesting);
}

/** "1, 2", "1 or 2", "1 and 2": solutions in any order. "1,000" is a number. */
function bareList(text: string, nesting: number): AnswerShape | undefined {
  const separated = text.replace(/\s*,?\s*\b(?:or|and)\b\s*(?=\S)/gu, ", ");
  if (isThousands(separated)) return undefined;
  const parts = splitList(separated);
  if (parts.length < 2) return undefined;
  return list("", false, mergeThousands(parts), nesting);
}

const THOUSANDS = /^[-+]?[^\d,]{0,3}\d{1,3}(?:,\d{3})+(?![\d,])/u;

function isThousands(text: string): boolean {
  const match = THOUSANDS.exec(text);
  return match !== null && !text.slice(match[0].length).includes(",");
}

/** "1,000, 2,000" is two numbers: inside a number no space follows the comma. */
function mergeThousands(parts: readonly string[]): string[] {
  const merged: string[] = [];
  for (const part of parts) {
    const before = merged.at(-1);
    const continues = before !== undefined && /^\d{3}(?!\d)/u.test(part) && /(?<!\d)\d{1,3}$|,\d{3}$/u.test(before);
    if (continues && parts.some((other) => other.startsWith(" "))) merged[merged.length - 1] = `${before},${part}`;
    else merged.push(part);
  }
  return merged;
}

function plusMinus(text: string, nesting: number): AnswerShape | undefined {
  const at = text.indexOf("±");
  if (at < 0 || text.indexOf("±", at + 1) >= 0) return undefined;
  return list("", false, [text.replace("±", "+"), text.replace("±", "-")], nesting);
}

const OPERATORS = /[=<>≤≥≠≈]/u;

function relation(text: string): AnswerShape | undefined {
  const operator = OPERATORS.exec(text)?.[0] ?? "";
  const sides = text.split(OPERATORS).map((side) => side.trim());
  const isChain = sides.length > 2 && !/[<>≤≥≠≈]/u.test(text);
  if (sides.length < 2 || sides.includes("") || (sides.length > 2 && !isChain)) return undefined;
  return { kind: "relation", operator, left: sides[0] as string, right: sides.at(-1) as string };
}

const BETWEEN = /^([^=<>≤≥≠]+)([<>≤≥])([^=<>≤≥≠]+)([<>≤≥])([^=<>≤≥≠]+)$/u;
const MEMBER = /^([^∈,]+)∈\s*([([].*[)\]])$/u;

/** "0 < x ≤ 1", "1 ≥ x > 0" and "x ∈ (0, 1]". */
function between(text: string, nesting: number): AnswerShape | undefined {
  return member(text, nesting) ?? range(text);
}

function member(text: string, nesting: number): AnswerShape | undefined {
  const [, name = "", set = ""] = MEMBER.exec(text) ?? [];
  const interval = parseShape(set, nesting + 1);
  return interval.kind === "list" ? { kind: "between", name: name.trim(), interval } : undefined;
}

function range(text: string): AnswerShape | undefined {
  const match = BETWEEN.exec(text);
  if (match === null) return undefined;
  const sides = match.slice(1).map((side) => side.trim());
  const isUp = isLess(sides[1]);
  if (isUp !== isLess(sides[3])) return undefined;
  const [low, from, name = "", to, high] = isUp ? sides : sides.reverse();
  const brackets = `${isStrict(from) ? "(" : "["}${isStrict(to) ? ")" : "]"}`;
  const elements = [low as string, high as string];
  return { kind: "between", name, interval: { kind: "list", brackets, ordered: true, elements } };
}

function isLess(operator = ""): boolean {
  return operator === "<" || operator === "≤";
}

function isStrict(operator = ""): boolean {
  return operator === "<" || operator === ">";
}

/** Semicolons separate where there are any: "1,5; 2,5" and "(0; 1)". */
function splitList(text: string): string[] {
  const parts = splitTop(text, ";");
  return parts.length > 1 ? parts : splitTop(text, ",");
}

const OPEN = "([{⦃";
const CLOSE = ")]}⦄";

/** Splits at a separator that is inside no brackets. */
function splitTop(text: string, separator: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (OPEN.includes(character)) depth += 1;
    else if (CLOSE.includes(character)) depth -= 1;
    else if (character === separator && depth === 0) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}

/** Index of the bracket that closes the one at `from`; -1: none. Any closing bracket does: intervals are half open. */
function closingOf(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (OPEN.includes(text.charAt(at))) depth += 1;
    else if (CLOSE.includes(text.charAt(at)) && --depth === 0) return at;
  }
  return -1;
}
