// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { isSource, sourceChange } from "./source-change.ts";

const suite = { paths: ["src"], packages: ["src/lib", "one.py"], tests: ["src/lib/tests", "tests"] };

it.each([
  ["src/lib/a.py", true],
  ["src/lib/deep/a.py", true],
  ["one.py", true],
  ["src/library/a.py", false],
  ["src/lib/tests/test_a.py", false],
  ["src/lib/tests/data.py", false],
  ["tests/helper.py", false],
  ["src/lib/conftest.py", false],
  ["src/lib/test_more.py", false],
  ["src/lib/sitecustomize.py", false],
  ["src/lib/data.json", false],
  ["src/pytest.py", false],
  ["conftest.py", false],
])("%s is the library's own code: %s", (path, yes) => {
  expect(isSource(path, suite)).toBe(yes);
});

it("carries over what was written and what was deleted, of the library's own code", () => {
  const before = new Map([
    ["src/lib/a.py", "1"],
    ["src/lib/b.py", "2"],
    ["src/lib/tests/test_a.py", "3"],
  ]);
  const after = new Map([
    ["src/lib/a.py", "changed"],
    ["src/lib/c.py", "new"],
    ["src/lib/tests/test_a.py", "changed"],
  ]);
  const change = sourceChange(before, after, suite);
  expect(Object.fromEntries(change.written)).toEqual({ "src/lib/a.py": "changed", "src/lib/c.py": "new" });
  expect(change.deleted).toEqual(["src/lib/b.py"]);
});
