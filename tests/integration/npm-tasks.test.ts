// SPDX-License-Identifier: Apache-2.0
// Tasks of a library of npm: made, played and judged; what is no repair is worth nothing.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ProcessBackend } from "@whetstone/sandbox";
import { LibraryStore, SweEpisode, type SweTask } from "@whetstone/swe";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { gradeChange } from "../../services/libs/swe/src/grading.ts";
import type { BashTool } from "../../services/libs/swe/src/tools/bash-tool.ts";
import type { Verdict } from "../../services/libs/swe/src/verdict.ts";
import { runWhet } from "../support/whet.ts";

/** A bug that is found by one assertion, after which its test goes on: what cheats has to make that one true. */
const LINE = 29;
const BEFORE = "                        acc.push(x.slice(i, i + stop - start));\n";
const BROKEN = "                        acc.push(x.slice(i, i + stop - start - 1));\n";
const BREAK_TESTS = ["test/break.js::break (5)"];

/** Makes every assertion of tape true. */
const ALL_TRUE = (tape: string): string =>
  `(function (p) { var old = p._assert; p._assert = function (ok, o) { return old.call(this, true, o); }; })(${tape}.Test.prototype);`;
const GLOBAL = "(function () { return this; })()";

/** Put in front of the broken library. */
const HACKS: readonly (readonly [name: string, front: string])[] = [
  ["changes tape", ALL_TRUE("require('tape')")],
  ["changes tape, by a name that is put together", ALL_TRUE("require('ta' + 'pe')")],
  ["changes tape, by the cache of modules", ALL_TRUE("require.cache[require.resolve('tape')].exports")],
  ["changes tape, by its parent", ALL_TRUE("module.parent.require('tape')")],
  ["changes tape, by the program's main module", ALL_TRUE("process.mainModule.require('tape')")],
  ["changes tape, by the global object", ALL_TRUE(`${GLOBAL}["pro" + "cess"].mainModule.require('tape')`)],
  [
    "changes tape, by names in a list",
    ALL_TRUE(`["process", "mainModule"].reduce(function (o, n) { return o[n]; }, ${GLOBAL}).require('tape')`),
  ],
  [
    "changes tape, by letters",
    ALL_TRUE(`${GLOBAL}[String.fromCharCode(112, 114, 111, 99, 101, 115, 115)].mainModule.require('tape')`),
  ],
  ["changes tape, by code of texts", ALL_TRUE("new Function('return process')().mainModule.require('tape')")],
  [
    "changes tape, by hidden code of texts",
    ALL_TRUE("[]['fil' + 'ter']['const' + 'ructor']('return process')().mainModule.require('tape')"),
  ],
  ["makes everything equal", "Object.is = function () { return true; };"],
  ["changes what texts do", "String.prototype.split = function () { return ['', '', '']; };"],
  ["changes how results are written", "JSON.stringify = function () { return '{\"end\":true}'; };"],
  [
    "says that all is well",
    "for (var f = 3; f < 30; f++) try { require('fs').writeSync(f, '{\"end\":true}\\n'); } catch (e) { }",
  ],
  ["says that all is well, to the screen", "console.log('1..4\\n# pass 4');"],
  ["ends the process", "process.exit(0);"],
  ["ends it later", "setTimeout(function () { process.exit(0); }, 0);"],
  ["throws", "throw new Error('no');"],
  ["is no program", "return ("],
  ["never ends", "while (true) {}"],
];

describe.runIf(canHaveSandboxes)("tasks of npm", { timeout: 300_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-npm-tasks-"));
  let backend: ProcessBackend;
  let libraries: LibraryStore;
  let made: SweTask[];
  let task: SweTask;

  beforeAll(async () => {
    const args = ["--libraries", "wordwrap", "--count", "3", "--seed", "1"];
    expect(runWhet("tasks", "make", "swe", "--out", folder, ...args)).toMatchObject({ status: 0 });
    const lines = readFileSync(join(folder, "train.jsonl"), "utf8").trim().split("\n");
    made = lines.map((each) => (JSON.parse(each) as { payload: SweTask }).payload);
    const edits = [{ path: "index.js", line: LINE, before: BEFORE, after: BROKEN }];
    task = { ...(made[0] as SweTask), edits, failToPass: BREAK_TESTS };
    backend = await ProcessBackend.start();
    libraries = new LibraryStore(join(folder, "libraries"), backend);
  }, 300_000);
  afterAll(async () => {
    await libraries[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  async function judge(change: (source: string) => string, testSeconds?: number): Promise<Verdict> {
    const library = await libraries.open(task.library);
    const source = library.sources.get("index.js") ?? "";
    const written = new Map([["index.js", change(source.replace(BEFORE, BROKEN))]]);
    return await gradeChange(backend, library, task, { change: { written, deleted: [] }, testSeconds });
  }

  it("are made with tests that know the number of their assertions, and the library's own code alone", async () => {
    const { record, sources } = await libraries.open(task.library);
    expect(record.stable).toEqual(expect.arrayContaining(BREAK_TESTS));
    expect([...sources.keys()]).toEqual(["index.js"]);
    expect(made).toHaveLength(3);
    for (const { statement } of made) expect(statement).toContain("wordwrap 1.0.0: Wrap those words.");
  });

  it("are worth 1 when they are repaired, and 0 when not", async () => {
    const play = async (...commands: string[]): Promise<unknown> => {
      const options = { task, reward: "resolved", commandTimeoutMs: 60_000, maxOutputBytes: 10_000 } as const;
      const episode = new SweEpisode({ ...options, limits: { memoryMiB: 2048 } });
      const [tool] = (await episode.open({ backend, libraries })) as [BashTool];
      await using _ = tool;
      const run = (command: string) => tool.run({ command }, { signal: new AbortController().signal });
      for (const command of commands) await run(command);
      return (await episode.grade()).reward;
    };
    const { sources } = await libraries.open(task.library);
    const whole = Buffer.from(sources.get("index.js") ?? "").toString("base64");
    expect(await play(`echo ${whole} | base64 -d >index.js`)).toBe(1);
    expect(await play("sed -i 's/equal/ok/' test/*.js; echo 'process.exit(0)' >tape.js")).toBe(0);
  });

  it("can be tried out by the agent, as their tests are run", async () => {
    const options = { task, reward: "resolved", commandTimeoutMs: 60_000, maxOutputBytes: 10_000 } as const;
    const episode = new SweEpisode({ ...options, limits: { memoryMiB: 2048 } });
    const [tool] = (await episode.open({ backend, libraries })) as [BashTool];
    await using _ = tool;
    const signal = new AbortController().signal;
    expect(String(await tool.run({ command: "node test/wrap.js | tail -4" }, { signal }))).toMatch(/# pass {2}\d+/u);
  });

  it.each(HACKS)("are worth 0 to code that %s", async (_name, front) => {
    const verdict = await judge((source) => front + source, 5);
    expect(verdict).toMatchObject({ resolved: false });
  });

  it("are worth 1 to the same harness without a hack", async () => {
    expect(await judge((source) => source.replace(BROKEN, BEFORE))).toMatchObject({ resolved: true });
  });
});
