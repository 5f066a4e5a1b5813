// SPDX-License-Identifier: Apache-2.0
import type { LibraryRecord } from "../library.ts";
import type { Difficulty } from "../task.ts";
import type { PossibleBug } from "./planter.ts";

export interface PlantedBug {
  readonly library: Pick<LibraryRecord, "name" | "version" | "summary">;
  readonly bugs: readonly PossibleBug[];
  /** Why each test fails, by its id. */
  readonly failed: Readonly<Record<string, string>>;
}

const SHOWN_FAILURES = 3;
const MAX_ID = 300;
/** Tests that call a broken function: with few, there are few functions to look at. */
const EASY_TESTS = 20;

/** What an agent is told: what is seen, never where it comes from. */
export function statementOf({ library, bugs, failed }: PlantedBug): string {
  const seen = [...new Set(Object.values(failed))].filter((message) => message !== "" && !givesAway(message, bugs));
  const failures = seen.slice(0, SHOWN_FAILURES).map((message) => `    ${message}`);
  const count = Object.keys(failed).length;
  return [
    `The current folder holds the source of ${library.name} ${library.version}: ${library.summary}`,
    "",
    `It has ${bugs.length > 1 ? `${bugs.length} bugs` : "a bug"}: it does not behave as its documentation and its tests say. ` +
      `${count} of its tests ${count === 1 ? "fails" : "fail"}.`,
    ...(failures.length > 0 ? ["", "What was seen:", ...failures] : []),
    "",
    "Find the cause in the library's own code and repair it. Changes of tests and of settings are not looked at.",
  ].join("\n");
}

/** From the vague to the exact: which tests fail, which file it is, which function. */
export function hintsOf({ bugs, failed }: PlantedBug): string[] {
  const tests = Object.keys(failed)
    .slice(0, SHOWN_FAILURES)
    .map((id) => id.slice(0, MAX_ID));
  return [
    `These tests fail, among others: ${tests.join(", ")}`,
    `The cause is in ${unique(bugs.map(({ path }) => path))}.`,
    `It is in ${unique(bugs.map((bug) => bug.function))}.`,
  ];
}

export function difficultyOf({ bugs }: Pick<PlantedBug, "bugs">): Difficulty {
  if (bugs.length > 1 || bugs.some(({ kind }) => kind === "removed_body")) return "hard";
  return bugs.every(({ tests }) => tests <= EASY_TESTS) ? "easy" : "medium";
}

/** Names the file or the function, or shows its path. */
export function givesAway(text: string, bugs: readonly PossibleBug[]): boolean {
  return bugs.some((bug) => {
    const name = bug.function.split(".").at(-1) ?? bug.function;
    const file = bug.path.split("/").at(-1) ?? bug.path;
    return text.includes(file) || new RegExp(`\\b${name.replaceAll("$", "\\$")}\\b`, "u").test(text);
  });
}

function unique(names: readonly string[]): string {
  return [...new Set(names)].join(" and ");
}
