// SPDX-License-Identifier: Apache-2.0

/** One edit of one file, and the tests that must then fail. */
export interface Edit {
  /** Path of the edited file from the root of the repository. */
  readonly file: string;
  /** Text that stands in the file exactly once, and what takes its place. */
  readonly find: string;
  readonly replace: string;
  /** Path of the test file: `.test.ts` is vitest's, `.py` pytest's. */
  readonly test: string;
  /** Part of the name of the test that guards it, as `vitest -t` and `pytest -k` take it. Absent: the whole file. */
  readonly only?: string;
}

/** The text with the edit made. @throws when what it replaces is not there exactly once, because the code has moved on. */
export function edited(text: string, { file, find, replace }: Edit): string {
  const parts = text.split(find);
  if (parts.length !== 2)
    throw new Error(`${file}: the text to replace stands there ${parts.length - 1} times: ${find}`);
  return parts.join(replace);
}
