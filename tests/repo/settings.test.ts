// SPDX-License-Identifier: Apache-2.0
// No setting without effect (I11): each field of a job is read by a service or the trainer, and each call is called.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "./imports.ts";
import { settingReaders } from "./settings.ts";

const listed = (...patterns: readonly string[]): string[] =>
  execFileSync("git", ["ls-files", "--", ...patterns], { cwd: root })
    .toString()
    .trim()
    .split("\n");
const read = (file: string): string => readFileSync(join(root, file), "utf8");

describe("the contract", () => {
  it("has no setting of a job that nothing reads", () => {
    const settings = settingReaders();
    expect(settings.length).toBeGreaterThan(80);
    expect(settings.filter(({ readers }) => readers.length === 0).map(({ field }) => field)).toEqual([]);
  }, 180_000);

  it("has no call that nothing calls", () => {
    const callers = listed("services/*.ts", "tests/*.ts", "python-trainer/*.py").map(read).join("\n");
    const calls = listed("proto/whetstone/*.proto").flatMap((file) =>
      [...read(file).matchAll(/^ {2}rpc (\w+)\(/gm)].map((match) => match[1] as string),
    );
    expect(calls.length).toBeGreaterThan(30);
    const called = (name: string): boolean =>
      new RegExp(`\\.(${name}|${name[0]?.toLowerCase()}${name.slice(1)})\\(`).test(callers);
    expect(calls.filter((name) => !called(name))).toEqual([]);
  });
});
