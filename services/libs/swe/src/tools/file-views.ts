// SPDX-License-Identifier: Apache-2.0
import { ToolError } from "@whetstone/tools";

// What an editor does with a text, and how it shows it.

/** Around an edit. */
const CONTEXT = 4;
/** Shorter bodies stay. */
const SHORT_BODY = 4;

/** As `cat -n` shows them. @param first  the number of the first line */
export function numbered(lines: readonly string[], first = 1): string {
  return lines.map((line, i) => `${String(i + first).padStart(6)}\t${line}`).join("\n");
}

/** @throws ToolError for a range that is none */
export function ranged(text: string, [first, last]: readonly [number, number]): string {
  const lines = text.split("\n");
  const end = last === -1 ? lines.length : last;
  if (first < 1 || first > lines.length || end < first || end > lines.length)
    throw new ToolError(`view_range [${first}, ${last}]: the file has the lines 1 to ${lines.length}.`);
  return numbered(lines.slice(first - 1, end), first);
}

export function snippetAt(text: string, line: number, size: number): string {
  const lines = text.split("\n");
  const first = Math.max(1, line - CONTEXT);
  return numbered(lines.slice(first - 1, line - 1 + size + CONTEXT), first);
}

/** @returns the new text, and the line where it begins to differ. @throws ToolError unless the old one stands there once */
export function replaced(text: string, old: string, by: string): { text: string; line: number } {
  if (old === "") throw new ToolError("str_replace needs an old_str that is not empty.");
  const at = text.indexOf(old);
  if (at < 0) throw new ToolError("old_str does not stand in the file: it must be the same to the last space.");
  if (text.indexOf(old, at + 1) >= 0)
    throw new ToolError("old_str stands in the file more than once: take more lines around it.");
  return { text: text.slice(0, at) + by + text.slice(at + old.length), line: text.slice(0, at).split("\n").length };
}

/** @throws ToolError for a line that the file does not have */
export function inserted(text: string, lines: string, after: number): string {
  const all = text.split("\n");
  if (!Number.isInteger(after) || after < 0 || after > all.length)
    throw new ToolError(`insert_line ${after}: the file has the lines 1 to ${all.length}; 0 is in front of them.`);
  return [...all.slice(0, after), ...lines.split("\n"), ...all.slice(after)].join("\n");
}

/** Python, with a mark in place of the longer bodies of its functions; lines keep their numbers. */
export function condensed(text: string): string {
  const lines = text.split("\n");
  const shown: string[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    shown.push(numbered([lines[at] ?? ""], at + 1));
    const end = endOfBody(lines, at);
    if (end === undefined) continue;
    shown.push(`       … lines ${end.first + 1} to ${end.last + 1} left out …`);
    at = end.last;
  }
  return shown.join("\n");
}

/** Of the function whose head ends on this line: the lines that are indented deeper. */
function endOfBody(lines: readonly string[], head: number): { first: number; last: number } | undefined {
  const start = startOfHead(lines, head);
  if (start === undefined) return undefined;
  const indent = indentOf(lines[start] ?? "");
  let last = head;
  for (let at = head + 1; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    if (line.trim() === "") continue;
    if (indentOf(line) <= indent) break;
    last = at;
  }
  return last - head >= SHORT_BODY ? { first: head + 1, last } : undefined;
}

const COLON_AT_END = /:\s*(#.*)?$/u;
const MAX_HEAD = 20;

/** A head may go over several lines: it begins with `def`, and its last line alone ends with a colon. */
function startOfHead(lines: readonly string[], end: number): number | undefined {
  if (!COLON_AT_END.test(lines[end] ?? "")) return undefined;
  for (let at = end; at >= Math.max(0, end - MAX_HEAD); at -= 1) {
    const line = lines[at] ?? "";
    if (at < end && COLON_AT_END.test(line)) return undefined;
    if (/^\s*(async\s+)?def\s/u.test(line)) return at;
  }
  return undefined;
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}
