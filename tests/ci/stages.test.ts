// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { dueStages, type LastGreen, readLastGreen, ROTATING, writeLastGreen } from "./stages.ts";

const root = join(import.meta.dirname, "../..");
const green: LastGreen = { date: "2026-01-01", commit: "abc1234" };
const allGreen = new Map(ROTATING.map(({ name }) => [name as string, green]));
const names = (day: number, changed: readonly string[] | undefined, greens = allGreen) =>
  dueStages(day, greens, () => changed).flatMap(({ name, because }) => (because === undefined ? [] : [name]));

describe("stages that take turns", () => {
  it("each run on their own day when nothing has changed", () => {
    expect(ROTATING.map((_, day) => names(day, []))).toEqual(ROTATING.map(({ name }) => [name]));
  });

  it("run on any day when one of their files has changed", () => {
    expect(names(0, ["tests/kube/pools.kube.test.ts"])).toEqual(["e2e: every part and fault", "kube"]);
    expect(names(0, ["tests/kubelet.ts"])).toEqual(["e2e: every part and fault"]);
  });

  it("run when it is not known what has changed, or whether they were ever green", () => {
    expect(names(0, undefined)).toHaveLength(ROTATING.length);
    expect(names(0, [], new Map())).toHaveLength(ROTATING.length);
  });

  it("name files and folders that exist", () => {
    expect(ROTATING.flatMap(({ paths }) => paths.filter((path) => !existsSync(join(root, path))))).toEqual([]);
  });
});

describe("the record in docs/STATUS.md", () => {
  const page = [
    "# Status",
    "",
    "| stage | last green | commit |",
    "| --- | --- | --- |",
    "| kube | 2026-01-01 | `abc1234` |",
    "",
    "end",
  ];

  it("is read, replaced row by row, and added to", () => {
    const written = writeLastGreen(page.join("\n"), new Map([["containers", { date: "2026-02-02", commit: "def" }]]));
    expect(readLastGreen(written)).toEqual(
      new Map([
        ["kube", green],
        ["containers", { date: "2026-02-02", commit: "def" }],
      ]),
    );
    expect(written.endsWith("\n\nend")).toBe(true);
  });

  it("stands on the page, for stages that there are", () => {
    const known: readonly string[] = ROTATING.map(({ name }) => name);
    const recorded = readLastGreen(readFileSync(join(root, "docs/STATUS.md"), "utf8"));
    expect([...recorded.keys()].filter((name) => !known.includes(name))).toEqual([]);
  });
});
