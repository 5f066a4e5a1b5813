// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";

import { environmentPath, readPythonEnvironments } from "./python-environments.ts";

const here = import.meta.filename;

it("names files by their whole path, and leaves modules as they are", () => {
  const relative = here.slice(process.cwd().length + 1);
  const violations: { path: string; reason: string }[] = [];
  const read = readPythonEnvironments(
    [relative, `${relative}:guess`, "games.chess:blitz", "gymnasium:FrozenLake-v1", "gymnasium:phys2d/CartPole-v1"],
    violations,
  );
  expect(read).toEqual([
    here,
    `${here}:guess`,
    "games.chess:blitz",
    "gymnasium:FrozenLake-v1",
    "gymnasium:phys2d/CartPole-v1",
  ]);
  expect(violations).toEqual([]);
});

it("refuses a file that is not there", () => {
  const violations: { path: string; reason: string }[] = [];
  readPythonEnvironments(["nowhere/guess.py:guess"], violations);
  expect(violations).toEqual([{ path: "--python-env", reason: "nowhere/guess.py: there is no such file" }]);
});

it("lets Python look where the user would", () => {
  expect(environmentPath(["/ours"], { PYTHONPATH: "/theirs" })).toBe(["/ours", process.cwd(), "/theirs"].join(":"));
  expect(environmentPath(["/ours"], {})).toBe(`/ours:${process.cwd()}`);
});
