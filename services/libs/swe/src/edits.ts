// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Edit } from "./task.ts";

/** Files by path. */
export type Texts = ReadonlyMap<string, string>;

/** @throws WhetstoneError TASK_INVALID where a file does not have the lines that are to be changed. */
export function applyEdits(texts: Texts, edits: readonly Edit[]): Map<string, string> {
  const result = new Map(texts);
  // From the last block of a file to its first, so that line numbers stay right.
  for (const { path, line, before, after } of edits.toSorted((a, b) => b.line - a.line)) {
    const text = result.get(path);
    if (text === undefined) throw unfit(path, "there is no such file");
    const at = offsetOf(text, line);
    if (!text.startsWith(before, at)) throw unfit(path, `line ${line} is not as the task says`);
    result.set(path, text.slice(0, at) + after + text.slice(at + before.length));
  }
  return result;
}

/** What undoes edits of one file or several. */
export function reverseEdits(edits: readonly Edit[]): Edit[] {
  const shifts = new Map<string, number>();
  return edits
    .toSorted((a, b) => a.line - b.line)
    .map(({ path, line, before, after }) => {
      const shift = shifts.get(path) ?? 0;
      shifts.set(path, shift + linesOf(after) - linesOf(before));
      return { path, line: line + shift, before: after, after: before };
    });
}

/** For people, and for `git apply` or `patch`: a unified diff without lines of context. */
export function diffOf(edits: readonly Edit[]): string {
  const paths = [...new Set(edits.map(({ path }) => path))].sort();
  return paths
    .map((path) =>
      fileDiff(
        path,
        edits.filter((edit) => edit.path === path),
      ),
    )
    .join("");
}

function fileDiff(path: string, edits: readonly Edit[]): string {
  let shift = 0;
  const hunks = edits
    .toSorted((a, b) => a.line - b.line)
    .map(({ line, before, after }) => {
      const [old, now] = [linesOf(before), linesOf(after)];
      // A block without lines is named by the line before it.
      const head = `@@ -${line - (old === 0 ? 1 : 0)},${old} +${line + shift - (now === 0 ? 1 : 0)},${now} @@\n`;
      shift += now - old;
      return head + marked("-", before) + marked("+", after);
    });
  return `--- a/${path}\n+++ b/${path}\n${hunks.join("")}`;
}

function marked(mark: string, block: string): string {
  return splitLines(block)
    .map((line) => (line.endsWith("\n") ? `${mark}${line}` : `${mark}${line}\n\\ No newline at end of file\n`))
    .join("");
}

function linesOf(block: string): number {
  return splitLines(block).length;
}

function splitLines(block: string): string[] {
  return block === "" ? [] : block.split(/(?<=\n)/u);
}

function offsetOf(text: string, line: number): number {
  let at = 0;
  for (let i = 1; i < line; i += 1) {
    const end = text.indexOf("\n", at);
    if (end === -1) return text.length;
    at = end + 1;
  }
  return at;
}

function unfit(path: string, why: string): WhetstoneError {
  return new WhetstoneError("TASK_INVALID", `the bug does not fit the library: ${path}: ${why}`);
}
