// SPDX-License-Identifier: Apache-2.0

export interface SplitAnswer {
  /** What stands in the think tags, without them. Empty: none. */
  readonly thought: string;
  /** What was said after the thinking; empty while it has not ended. */
  readonly answer: string;
}

const OPEN = "<think>";
const CLOSE = "</think>";

/**
 * Takes an answer apart at the last `</think>`; the opening tag may be in the prompt, as with R1. Thinking that never
 * ended (the answer was cut) is all thought: what a model only considered is not its answer.
 */
export function splitThinking(text: string): SplitAnswer {
  const end = text.lastIndexOf(CLOSE);
  const rest = end < 0 ? text : text.slice(end + CLOSE.length);
  const open = rest.indexOf(OPEN);
  const closed = end < 0 ? "" : text.slice(0, end).replace(OPEN, "");
  if (open < 0) return { thought: closed.trim(), answer: rest.trim() };
  return { thought: `${closed}${rest.slice(open + OPEN.length)}`.trim(), answer: rest.slice(0, open).trim() };
}

/** The text as later prompts show it when thinking is not accumulated. */
export function withoutThinking(text: string): string {
  return splitThinking(text).answer;
}
