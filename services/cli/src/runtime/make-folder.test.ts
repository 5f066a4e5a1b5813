// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { makeFolder } from "./make-folder.ts";

it("makes a folder and those above it", () => {
  const root = mkdtempSync(join(tmpdir(), "whet-folder-"));
  makeFolder(join(root, "a/b/c"));
  makeFolder(join(root, "a/b/c"));
  expect(existsSync(join(root, "a/b/c"))).toBe(true);
  rmSync(root, { recursive: true });
});

it.runIf(existsSync("/proc/self"))("ends where a file system refuses folders, instead of trying for ever", () => {
  expect(() => makeFolder("/proc/nope/logs")).toThrow(/ENOENT|EACCES/);
});
