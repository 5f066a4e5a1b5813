// SPDX-License-Identifier: Apache-2.0
// Names say what a thing is for, in the field's words (docs/glossary.md). These were metaphors; they do not come back.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "./imports.ts";

/** A retired word, and what to say. */
const RETIRED: Record<string, string> = {
  desk: "puller",
  desks: "pullers",
  door: "listener",
  duties: "work",
  duty: "work",
  guilty: "crashing",
  house: "setup",
  needy: "in need",
  news: "change, event, condition",
  office: "leadership",
  stance: "activity",
  weather: "passing fault",
  wish: "desired state, choice",
  wishes: "desired states",
};

/** Where a word is somebody else's, or a name that older records and objects still bear. */
const ALLOWED = [
  /\bget_weather\b/, // A tool's name in an example of a conversation.
  /\b(JobWish|JOB_WISH_\w+)\b/, // Fields of records written by an earlier version.
  /replicas-wished/, // An annotation of objects in clusters.
];
const OLD_RECORDS = /libs\/messaging\/(src\/jobs\/former-|test-support\/former-)|jobs\/v1\/jobs\.proto$/;

const files = execFileSync("git", ["ls-files", "--", "*.ts", "*.py", "*.proto", "*.yaml", "*.tpl", "*.md"], {
  cwd: root,
})
  .toString()
  .trim()
  .split("\n")
  .filter((file) => !/^(proto\/(gen|buf)|docs\/decisions)\//.test(file) && !file.startsWith("tests/repo/retired-words"))
  .filter((file) => !OLD_RECORDS.test(file));

/** Words of a line; `FleetWish` and `fleet_wish` have two. */
function wordsOf(line: string): string[] {
  return line
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/);
}

describe("retired words", () => {
  it("are in no code, test, message or document", () => {
    const found = files.flatMap((file) =>
      readFileSync(join(root, file), "utf8")
        .split("\n")
        .flatMap((line, index) => {
          const rest = ALLOWED.reduce((text, allowed) => text.replaceAll(new RegExp(allowed, "g"), ""), line);
          const words = wordsOf(rest).filter((word) => Object.hasOwn(RETIRED, word));
          return words.map((word) => `${file}:${index + 1}: "${word}"; say ${RETIRED[word]}`);
        }),
    );
    expect(found).toEqual([]);
  });
});
