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
/** Folders beside the checkout, as a script in its root would name them. */
const BESIDE_THE_CHECKOUT = /\$(?:PWD|\{PWD\}|\(pwd\)|\(CURDIR\))"?\/\.\./;
/** It looks whether the machine that runs our CI has a cluster there, and can do without. */
const CI = ".ci/run";
const EXEMPT =
  /^(tests\/repo\/paths\.test\.ts|proto\/gen\/|examples\/swe\/tasks\/)|\.(png|binpb|lock)$|package-lock\.json$/;

const files = execFileSync("git", ["ls-files"], { cwd: root, encoding: "utf8" })
  .trim()
  .split("\n")
  .filter((file) => !EXEMPT.test(file));

it("no tracked file names a folder of one machine", () => {
  expect(files.flatMap((file) => lines(file, (line) => OF_ONE_MACHINE.test(line)))).toEqual([]);
});

it("no tracked file names a folder beside the checkout", () => {
  const named = files.flatMap((file) =>
    lines(file, (line) => BESIDE_THE_CHECKOUT.test(line) || climbs(line) > file.split("/").length - 1),
  );
  expect(named.filter((found) => !found.startsWith(`${CI}:`))).toEqual([]);
});

/** How many folders up the longest `../../…` of a line leads. */
function climbs(line: string): number {
  return Math.max(0, ...[...line.matchAll(/(?:\.\.\/)+/g)].map(([up]) => up.length / 3));
}

function lines(file: string, isNamed: (line: string) => boolean): string[] {
  return readFileSync(join(root, file), "utf8")
    .split("\n")
    .flatMap((line, i) => (isNamed(line) ? [`${file}:${i + 1} ${line.trim()}`] : []));
}
