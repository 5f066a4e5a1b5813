// SPDX-License-Identifier: Apache-2.0
// A checkout must work on any machine: no file names a folder that only one machine has.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
/** Homes and work folders of people and build machines, and folders of wheels that pip is told to look in. */
const OF_ONE_MACHINE =
  /(?<![\w./`-])\/(?:work|home|Users|opt\/wheels)(?:\/|\b)(?!load|er)|(?<![\w./`-])\/root\/|--find-links/;
const EXEMPT = /^(tests\/repo\/paths\.test\.ts|proto\/gen\/)|\.(png|binpb|lock)$|package-lock\.json$/;

it("no tracked file names a folder of one machine", () => {
  const files = execFileSync("git", ["ls-files"], { cwd: root, encoding: "utf8" }).trim().split("\n");
  const named = files
    .filter((file) => !EXEMPT.test(file))
    .flatMap((file) =>
      readFileSync(join(root, file), "utf8")
        .split("\n")
        .map((line, i) => `${file}:${i + 1} ${OF_ONE_MACHINE.exec(line)?.[0] ?? ""}`)
        .filter((found) => !found.endsWith(" ")),
    );
  expect(named).toEqual([]);
});
