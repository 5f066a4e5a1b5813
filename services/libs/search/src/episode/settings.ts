// SPDX-License-Identifier: Apache-2.0
import type { Searcher } from "@whetstone/tools";
import type { FormatWeights, SearchTask } from "./search-reward.ts";

export interface SearchEnvironmentOptions {
  readonly task: SearchTask;
  readonly searcher: Searcher;
  /** exact (default): reward 1 for one of the truths; f1: the words' F1. */
  readonly grader?: "exact" | "f1" | undefined;
  readonly format?: FormatWeights | undefined;
  /** Passages of an answer to a search. Default 3. */
  readonly results?: number | undefined;
  /** Characters shown of a passage. Default 600. */
  readonly passageCharacters?: number | undefined;
  /** Turns. Default 6. */
  readonly maxSteps?: number | undefined;
  /** Of one search. Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

export type SearchSettings = {
  readonly [Key in keyof SearchEnvironmentOptions]-?: Exclude<SearchEnvironmentOptions[Key], undefined>;
};

export function withDefaults(options: SearchEnvironmentOptions): SearchSettings {
  const { task, searcher, grader = "exact", format = {}, results = 3, passageCharacters = 600 } = options;
  const { maxSteps = 6, timeoutMs = 30_000 } = options;
  return { task, searcher, grader, format, results, passageCharacters, maxSteps, timeoutMs };
}
