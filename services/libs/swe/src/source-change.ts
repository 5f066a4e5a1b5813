// SPDX-License-Identifier: Apache-2.0
import type { Suite } from "./library.ts";
import type { Texts } from "./edits.ts";

/** What an agent has made of the library's own code. Nothing else that it did is looked at when it is graded. */
export interface SourceChange {
  /** Files that are new or different, with their text. */
  readonly written: Texts;
  readonly deleted: readonly string[];
}

/** Programs of a library that Python or pytest would run by themselves, or for a test. */
const RUN_UNASKED = /(^|\/)(conftest|sitecustomize|usercustomize|setup|test_[^/]*|[^/]*_tests?)\.py$/u;

/** Of the library's own code: no test, and nothing that could stand in a test's way. */
export function isSource(path: string, { packages, tests }: Pick<Suite, "packages" | "tests">): boolean {
  const below = (folders: readonly string[]): boolean =>
    folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
  return path.endsWith(".py") && below(packages) && !below(tests) && !RUN_UNASKED.test(path);
}

/** @param before  the library with its bug. @param after  what the agent left. */
export function sourceChange(before: Texts, after: Texts, suite: Suite): SourceChange {
  const written = [...after].filter(([path, text]) => isSource(path, suite) && before.get(path) !== text);
  const deleted = [...before.keys()].filter((path) => isSource(path, suite) && !after.has(path));
  return { written: new Map(written), deleted };
}
