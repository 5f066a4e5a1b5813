// SPDX-License-Identifier: Apache-2.0
// Search-R1's grammar: think, then search or answer, each between its tags; what was found stands between <information> tags.
// Source: PeterGriffinJin/Search-R1, search_r1/llm_agent/generation.py and verl/utils/reward_score/qa_em_format.py.
import type { Found } from "@whetstone/tools";

export type TagAction =
  | { readonly kind: "search" | "answer"; readonly content: string; readonly text: string }
  | { readonly kind: "none"; readonly text: string };

/** The first search or answer of a turn; `text` is the turn up to its end, since what follows was written without its results. */
export function tagAction(turn: string): TagAction {
  const match = /<(search|answer)>([\s\S]*?)<\/\1>/u.exec(turn);
  if (match === null) return { kind: "none", text: turn };
  const [all, kind, content = ""] = match;
  return { kind: kind as "search" | "answer", content: content.trim(), text: turn.slice(0, match.index + all.length) };
}

export function information(found: readonly Found[], maxCharacters: number): string {
  const lines = found.map(
    ({ document: { title = "", text } }, i) =>
      `Doc ${i + 1}(Title: ${harmless(title)}) ${harmless(text.slice(0, maxCharacters))}`,
  );
  return `<information>${lines.join("\n")}</information>`;
}

/** Search-R1's own words. */
export const INVALID_ACTION =
  "My previous action is invalid. If I want to search, I should put the query between <search> and </search>. " +
  "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.";

const TAG = /(<\/?(?:think|search|information|answer)>)/u;

/** A passage must not close the block that it is in. */
function harmless(text: string): string {
  return text.replace(/<(\/?(?:think|search|information|answer))>/gu, "‹$1›");
}

type State = "start" | "think" | "thought" | "search" | "searched" | "information" | "informed" | "answer" | "end";

const NEXT: Readonly<Record<string, Partial<Record<State, State>>>> = {
  "<think>": { start: "think", informed: "think" },
  "</think>": { think: "thought" },
  "<search>": { thought: "search" },
  "</search>": { search: "searched" },
  "<information>": { searched: "information" },
  "</information>": { information: "informed" },
  "<answer>": { thought: "answer" },
  "</answer>": { answer: "end" },
};

const INSIDE: ReadonlySet<State> = new Set(["think", "search", "information", "answer"]);

/** A whole episode is think, search, information, any number of times, then think and answer, and nothing outside of the tags. */
export function isWellFormed(episode: string): boolean {
  let state: State = "start";
  for (const part of episode.split(TAG)) {
    if (part.trim() === "") continue;
    if (!TAG.test(part)) {
      if (!INSIDE.has(state)) return false;
      continue;
    }
    const next: State | undefined = NEXT[part]?.[state];
    if (next === undefined) return false;
    state = next;
  }
  return state === "end";
}
