// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, it } from "vitest";

import { acquireLock, readLock } from "./lock.ts";
import { openLogFile, tailOf } from "./log-file.ts";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "whet-lock-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it("is exclusive, and free again after its release", () => {
  const path = join(folder, "lock");
  const lock = acquireLock(path, "one");
  expect(() => acquireLock(path, "two")).toThrow(`a runtime is already running here (pid ${process.pid})`);
  expect(readLock(path)?.instance).toBe("one");
  lock.release();
  expect(readdirSync(folder)).toEqual([]);
  expect(acquireLock(path, "two").tookOver).toBe(false);
});

it.each([
  ["a process that is gone", JSON.stringify({ pid: 2 ** 22 + 1, started: "1", instance: "old" })],
  ["a process id that was used again", JSON.stringify({ pid: process.pid, started: "1", instance: "old" })],
  ["nobody that can be read", "{"],
])("takes over the lock of %s", (_, content) => {
  const path = join(folder, "lock");
  writeFileSync(path, content);
  const lock = acquireLock(path, "new");
  expect(lock.tookOver).toBe(true);
  expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ pid: process.pid, instance: "new" });
  expect(readdirSync(folder)).toEqual(["lock"]);
});

it("does not release a lock that is another's by now", () => {
  const path = join(folder, "lock");
  const lock = acquireLock(path, "one");
  writeFileSync(path, JSON.stringify({ pid: process.pid, started: "1", instance: "two" }));
  lock.release();
  expect(existsSync(path)).toBe(true);
});

it("rotates a log and keeps one old file", () => {
  const path = join(folder, "a.log");
  const log = openLogFile(path, 10);
  for (const text of ["12345678\n", "abcdefgh\n", "ABCDEFGH\n"]) log.write(Buffer.from(text));
  log.close();
  log.write(Buffer.from("late")); // a late writer is not an error
  expect(readFileSync(path, "utf8")).toBe("ABCDEFGH\n");
  expect(readFileSync(`${path}.1`, "utf8")).toBe("abcdefgh\n");
  expect(tailOf(path, 3)).toEqual(["ABCDEFGH"]);
});
