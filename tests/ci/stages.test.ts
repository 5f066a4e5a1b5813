// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CORE, ROTATING } from "./rotating.ts";
import type { FileStage } from "./stage.ts";
import { chooseStages, dueStages, type LastGreen, readLastGreen, writeLastGreen } from "./stages.ts";

const root = join(import.meta.dirname, "../..");
const green: LastGreen = { date: "2026-01-01", commit: "abc1234" };
const all = ROTATING.map(({ name }) => name);
const allGreen = new Map(all.map((name) => [name, green]));
const due = (day: number, changed: readonly string[] | undefined, greens = allGreen) =>
  dueStages(day, greens, () => changed);
const names = (...args: Parameters<typeof due>) =>
  due(...args).flatMap(({ stage, because }) => (because === undefined ? [] : [stage.name]));
const read = (file: string) => readFileSync(join(root, file), "utf8");

describe("stages that take turns", () => {
  it("each run on their own day when nothing has changed", () => {
    expect(all.map((_, day) => names(day, []))).toEqual(all.map((name) => [name]));
  });

  it("run on any day when one of their files or tests has changed", () => {
    const day = all.indexOf("containers");
    const changed = (file: string) => names(day, [file]).filter((name) => name !== "containers");
    expect(changed("tests/kube/pools.kube.test.ts")).toEqual(["kube: environments"]);
    expect(changed("services/controller/src/operator/kueue/plan.ts")).toEqual(["kube: jobs", "kube: engines"]);
    expect(changed("services/controller/src/operator/operator.ts")).toHaveLength(6);
    expect(changed("tests/kubelet.ts")).toEqual([]);
  });

  it("run when it is not known what has changed, or whether they were ever green", () => {
    expect(names(0, undefined)).toEqual(all);
    expect(names(0, [], new Map())).toEqual(all);
  });

  it("take at most ten minutes each", () => {
    expect(ROTATING.filter(({ minutes }) => minutes > 10)).toEqual([]);
  });
});

describe("when more is due than there is time for", () => {
  const older = new Map(allGreen).set("kube: engines", { date: "2025-12-01", commit: "old1234" });
  older.delete("containers");
  const chosen = (...minutes: [number, number]) =>
    chooseStages(due(0, undefined, older), ...minutes).map(({ name }) => name);

  it("those not green for the longest come first, until the aim", () => {
    expect(chosen(Infinity, Infinity).slice(0, 3)).toEqual(["containers", "kube: engines", all[0]]);
    expect(chosen(12, 60)).toEqual(["containers", "kube: engines"]);
  });

  it("each comes first on its day, also where nobody recorded that one was green", () => {
    const first = all.map((_, day) => chooseStages(due(day, undefined, new Map()), 0, 60)[0]?.name);
    expect(first).toEqual(all);
  });

  it("one is done past the aim, none past the limit", () => {
    expect(chosen(-5, 30)).toEqual(["containers"]);
    expect(chosen(-5, 1)).toEqual([]);
  });
});

describe("the table of stages", () => {
  it("names files and folders that exist", () => {
    const paths = ROTATING.flatMap((stage) => [...stage.paths, ...("tests" in stage ? stage.tests : [])]);
    expect(paths.filter((path) => !existsSync(join(root, path.replace(/\/\*$/, ""))))).toEqual([]);
  });

  it("has every test that needs a cluster or a container engine once", () => {
    const tracked = execFileSync("git", ["ls-files", "*.kube.test.ts", "*.containers.test.ts"], { cwd: root });
    const isSuch = ({ project }: FileStage): boolean => project === "kube" || project === "containers";
    const listed = ROTATING.flatMap((stage) => ("tests" in stage && isSuch(stage) ? stage.tests : []));
    expect([...listed].sort()).toEqual(tracked.toString().trim().split("\n").sort());
  });

  it("has every part and every fault of the end-to-end tests, by default those that need no further image", () => {
    const e2e = [CORE, ...ROTATING.flatMap((stage) => ("parts" in stage ? [stage] : []))];
    const byDefault = /E2E_PARTS"\] \|\| "([^"]+)"/.exec(read("tests/e2e/run.ts"))?.[1]?.split(",");
    const ordinary = e2e.filter((stage) => !("images" in stage));
    expect([...new Set(ordinary.flatMap(({ parts }) => parts))].sort()).toEqual(byDefault?.sort());
    const source = read("tests/e2e/faults.ts") + read("tests/e2e/storage-faults.ts");
    const faults = [...source.matchAll(/(?:name: |volume\()["`]([^"`$]+)/g)].map(([, name = ""]) => name);
    expect(faults.length).toBeGreaterThan(14);
    const rotating = e2e.slice(1).flatMap(({ faults }) => (faults === undefined ? [] : [new RegExp(faults)]));
    expect(faults.filter((fault) => rotating.filter((one) => one.test(fault)).length !== 1)).toEqual([]);
  });

  it("knows every folder of the controller", () => {
    const folders = ["services/controller/src", "services/controller/src/operator"].flatMap((folder) =>
      readdirSync(join(root, folder), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => `${folder}/${name}`),
    );
    const paths = ROTATING.flatMap(({ paths }) => paths);
    expect(folders.filter((folder) => !paths.some((path) => path.startsWith(folder)))).toEqual([]);
  });
});

describe("the record in docs/STATUS.md", () => {
  const page = [
    "# Status",
    "",
    "| stage | last green | commit |",
    "| --- | --- | --- |",
    "| containers | 2026-01-01 | `abc1234` |",
    "| no longer a stage | 2026-01-01 | `abc1234` |",
    "",
    "end",
  ];

  it("is read, replaced row by row, added to, and rid of what is no stage", () => {
    const written = writeLastGreen(page.join("\n"), new Map([["kube: jobs", { date: "2026-02-02", commit: "def" }]]));
    expect(readLastGreen(written)).toEqual(
      new Map([
        ["containers", green],
        ["kube: jobs", { date: "2026-02-02", commit: "def" }],
      ]),
    );
    expect(written.endsWith("\n\nend")).toBe(true);
  });

  it("stands on the page", () => {
    expect(readLastGreen(read("docs/STATUS.md")).size).toBeGreaterThan(0);
  });
});
