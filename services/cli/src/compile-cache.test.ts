// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

const WHET = join(import.meta.dirname, "../bin/whet.mjs");
let home: string;
beforeEach(() => void (home = mkdtempSync(join(tmpdir(), "whetstone-home-"))));
afterEach(() => rmSync(home, { recursive: true, force: true }));

function versionAt(HOME: string): string {
  const { NODE_COMPILE_CACHE: _, ...environment } = process.env;
  const options = { env: { ...environment, HOME }, encoding: "utf8", timeout: 30_000 } as const;
  return spawnSync(process.execPath, [WHET, "--version"], options).stdout;
}

it("keeps what Node compiled in the user's home", () => {
  expect(versionAt(home)).toMatch(/^\d/);
  expect(existsSync(join(home, ".whetstone/compile-cache"))).toBe(true);
});

it("starts where there is no home, or none that can be made", () => {
  expect(versionAt("/proc/nowhere")).toMatch(/^\d/);
});
