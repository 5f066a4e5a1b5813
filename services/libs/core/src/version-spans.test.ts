// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { versionOfEachToken } from "./version-spans.ts";

const NONE = undefined;
it.each<[string, [number, number, bigint][], (bigint | undefined)[]]>([
  ["no span", [], [NONE, NONE, NONE, NONE]],
  [
    "one after the other",
    [
      [0, 1, 7n],
      [1, 4, 9n],
    ],
    [7n, 9n, 9n, 9n],
  ],
  [
    "a gap",
    [
      [0, 1, 7n],
      [3, 4, 7n],
    ],
    [7n, NONE, NONE, 7n],
  ],
  ["beyond the end", [[2, 9, 7n]], [NONE, NONE, 7n, 7n]],
  [
    "an empty one and one turned round",
    [
      [0, 0, 1n],
      [3, 1, 2n],
      [0, 4, 7n],
    ],
    [7n, 7n, 7n, 7n],
  ],
  [
    "two versions of the same tokens",
    [
      [0, 3, 7n],
      [2, 4, 9n],
    ],
    [7n, 7n, NONE, 9n],
  ],
  [
    "three spans over one token, of one version",
    [
      [0, 4, 7n],
      [1, 2, 7n],
      [1, 2, 7n],
    ],
    [7n, NONE, 7n, 7n],
  ],
])("the labels of tokens (I5): %s", (_, spans, expected) => {
  const named = spans.map(([start, end, policyVersion]) => ({ start, end, policyVersion }));
  expect(versionOfEachToken(4, named)).toEqual(expected);
});
