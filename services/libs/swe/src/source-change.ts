// SPDX-License-Identifier: Apache-2.0
import type { Suite } from "./library.ts";
import type { Texts } from "./edits.ts";

/** What an agent has made of the library's own code. Nothing else that it did is looked at when it is graded. */
export interface SourceChange {
  /** Files that are new or different, with their text. */
  readonly written: Texts;
  readonly deleted: readonly string[];
}

/** Of each language: its programs, and those that are run unasked, or for a test. */
const FILES = {
  python: {
    source: /\.py$/u,
    unasked: /(^|\/)(conftest|sitecustomize|usercustomize|setup|test_[^/]*|[^/]*_tests?)\.py$/u,
  },
  javascript: { source: /\.[cm]?js$/u, unasked: /(^|\/)(node_modules|tests?)\/|(\.test|\.spec|\.config)\.[cm]?js$/u },
} as const;

/** Of the library's own code: no test, and nothing that could stand in a test's way. */
export function isSource(path: string, suite: Pick<Suite, "language" | "packages" | "tests">): boolean {
  const { language = "python", packages, tests } = suite;
  const { source, unasked } = FILES[language];
  const below = (folders: readonly string[]): boolean =>
    folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
  return source.test(path) && below(packages) && !below(tests) && !unasked.test(path);
}

/** @param before  the library with its bug. @param after  what the agent left. */
export function sourceChange(before: Texts, after: Texts, suite: Suite): SourceChange {
  const written = [...after].filter(([path, text]) => isSource(path, suite) && before.get(path) !== text);
  const deleted = [...before.keys()].filter((path) => isSource(path, suite) && !after.has(path));
  return { written: new Map(written), deleted };
}
