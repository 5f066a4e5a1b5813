// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Dataset } from "@whetstone/datasets";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { FakeTerminal } from "../../test-support/fake-terminal.ts";
import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

let folder: string;
let terminal: FakeTerminal;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whet-datasets-"));
  terminal = fakeTerminal();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const whet = async (...argv: string[]): Promise<number> => {
  const { signal } = new AbortController();
  const environment = { WHETSTONE_DATASETS: join(folder, "registry") };
  return runCommand(["datasets", ...argv], { terminal, environment, signal, force: signal });
};
const json = async (...argv: string[]): Promise<Record<string, unknown>> => {
  const before = terminal.documents.length;
  expect(await whet(...argv, "--json")).toBe(0);
  return terminal.documents[before] as Record<string, unknown>;
};
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const sums = (): string => file("sums.csv", "id,question,answer\na,1+1,2\nb,2+2,4\nc,3+3,6\nd,4+4,8\n");

describe("whet datasets", () => {
  it("adds, lists, shows and removes", async () => {
    expect(await whet("ls")).toBe(0);
    expect(terminal.out.join("\n")).toContain("whet datasets add");
    expect(await json("add", "sums", sums(), "--split", "train", "--description", "sums of two")).toMatchObject({
      name: "sums",
      split: "train",
      rows: 4,
    });
    await whet("ls");
    expect(terminal.out.join("\n")).toMatch(/sums +train +4 .* sums of two/);
    expect(await json("show", "sums", "--rows", "1")).toMatchObject({
      splits: [{ split: "train", tasks: [{ id: "a", payload: { question: "1+1", answer: 2 }, source: "sums" }] }],
    });
    expect(await json("rm", "sums")).toEqual({ name: "sums", removed: ["train"] });
    expect(await json("ls")).toMatchObject({ datasets: [] });
  });

  it("replaces a split only when told to", async () => {
    await json("add", "sums", sums());
    expect(await whet("add", "sums", sums())).toBe(1);
    expect(terminal.err.join("\n")).toContain("--replace");
    expect(await json("add", "sums", file("one.jsonl", '{"q":1}\n'), "--replace")).toMatchObject({ rows: 1 });
  });

  it("filters by the pass rates of evaluations that count together", async () => {
    await json("add", "sums", sums(), "--split", "train");
    const report = (name: string, ...correct: number[]): string =>
      file(name, JSON.stringify({ tasks: [..."abc"].map((id, i) => ({ id, episodes: 4, correct: correct[i] })) }));
    const rates = ["--eval", report("1.json", 0, 2, 4), report("2.json", 0, 0, 4), "--min", "0.2", "--max", "0.9"];
    expect(await json("filter", "sums", ...rates, "--as", "hard")).toMatchObject({
      name: "hard",
      split: "train",
      rows: 1,
    });
    expect(await json("show", "hard")).toMatchObject({ splits: [{ tasks: [{ id: "b" }] }] });
    expect(await whet("filter", "sums", ...rates, "--as", "sums", "--replace")).toBe(0);
    expect(terminal.out.join("\n")).toContain("kept 1 of 4");
  });

  it.each([".jsonl", ".parquet"])("exports to %s, which is read again as the same tasks", async (ending) => {
    const tasks = [
      { id: "x", payload: { n: 1, deep: [{ a: null }] }, source: "s" },
      { id: "y", payload: {}, source: "t", demonstration: [{ role: "assistant" as const, content: "2" }] },
    ];
    await json("add", "mixed", file("in.jsonl", tasks.map((task) => JSON.stringify(task)).join("\n")));
    const path = join(folder, `out${ending}`);
    expect(await json("export", "mixed", path)).toMatchObject({ tasks: 2 });
    expect(await Dataset.fromFile(path).toArray()).toEqual(tasks);
    expect(existsSync(`${path}.draft`)).toBe(false);
  });

  it.each([
    [["show", "none"], /no dataset none in .*registry; there are: sums/],
    [["show", "sums", "--split", "test"], /no split test; name one of default/],
    [["show", "sums", "--rows", "-1"], /--rows/],
    [["add", "new", "missing.csv"], /missing\.csv does not exist/],
    [["add", "new", "data.arrow"], /must end in|does not exist/],
    [["add", "../new", "FILE"], /starts with a letter or digit/],
    [["export", "sums", "out.txt"], /\.jsonl or \.parquet/],
    [["filter", "sums", "--eval", "FILE", "--as", "x"], /not JSON/],
    [["filter", "sums", "--eval", "FILE", "--as", "x", "--min", "2"], /--min.*0 to 1/],
    [["filter", "sums", "--eval", "gone.json", "--as", "x"], /gone\.json cannot be read/],
  ])("%j is refused", async (argv, message) => {
    const path = sums();
    await json("add", "sums", path);
    expect(await whet(...argv.map((word) => (word === "FILE" ? path : word)))).not.toBe(0);
    expect(terminal.err.join("\n")).toMatch(message);
    expect(readFileSync(path, "utf8")).toContain("question");
  });
});
