// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ProcessBackend } from "@whetstone/sandbox";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes } from "@whetstone/testkit";
import { SMALL_PIN, SMALL_TASK, smallSources } from "../../test-support/small-library.ts";
import { LibraryStore } from "../library-store.ts";
import { type SweTask, SweTaskSchema } from "../task.ts";
import { makeLibrary } from "./make-library.ts";
import { type MadeTask, makeTasks } from "./make-tasks.ts";
import { proveTask } from "./prove-task.ts";

/** As libraries have them whose tests lie in a folder of their own code. */
const TESTS_WITHIN = { ...SMALL_PIN, suite: { ...SMALL_PIN.suite, packages: ["tally", "tests"] } };
const never = new AbortController().signal;

describe.runIf(canHaveSandboxes)("the factory", { timeout: 240_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-factory-"));
  let backend: ProcessBackend;
  let libraries: LibraryStore;
  let tasks: MadeTask[];
  const verdicts: string[] = [];
  beforeAll(async () => {
    backend = await ProcessBackend.start();
    await makeLibrary(TESTS_WITHIN, { folder, sources: smallSources, backend });
    libraries = new LibraryStore(folder, backend);
    const library = await libraries.open(SMALL_TASK.library);
    const onTry = (verdict: string): number => verdicts.push(verdict);
    tasks = await makeTasks(library, { backend, count: 8, pairs: 0.25, seed: 7, signal: never, onTry });
  }, 240_000);
  afterAll(async () => {
    await libraries[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  it("relies on tests that pass each time and measure none, and on no others", async () => {
    const { record } = await libraries.open(SMALL_TASK.library);
    expect(record.stable).toContain("tests/test_tally.py::test_clamp[-5-0]");
    expect(record.stable.join()).not.toMatch(/flaky|skipped|quick/u);
    expect(record.stable).toHaveLength(9);
  });

  it("makes tasks of several kinds, some with two bugs, that say nothing of the place", () => {
    expect(tasks).toHaveLength(8);
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(8);
    expect(new Set(tasks.flatMap(({ payload }) => payload.bugs)).size).toBeGreaterThan(3);
    expect(tasks.filter(({ payload }) => payload.bugs.length === 2).length).toBeGreaterThan(0);
    for (const { payload } of tasks) {
      expect(() => SweTaskSchema.parse(payload)).not.toThrow();
      expect(payload.statement).not.toMatch(/core|line \d/u);
      expect(payload.statement).toContain("tally 1.0.0: Counts money.");
    }
    expect(verdicts.filter((verdict) => verdict === "caught").length).toBe(8);
  });

  it("plants bugs in the library's own code, never in its tests", () => {
    const paths = tasks.flatMap(({ payload }) => payload.edits.map(({ path }) => path));
    expect(new Set(paths)).toEqual(new Set(["tally/core.py"]));
  });

  it("proves them: the repair is worth 1, nothing is worth 0", async () => {
    for (const { id, payload } of tasks.slice(0, 3))
      expect({ id, ...(await proveTask({ backend, libraries }, payload)) }).toEqual({ id, gold: 1, empty: 0 });
  });

  it("knows a task that proves nothing", async () => {
    const comment: SweTask = {
      ...SMALL_TASK,
      edits: [{ path: "tally/core.py", line: 1, before: "", after: "# no bug\n" }],
    };
    expect(await proveTask({ backend, libraries }, comment)).toEqual({ gold: 1, empty: 1 });
    const broken: SweTask = { ...SMALL_TASK, edits: [{ path: "tally/core.py", line: 3, before: "x", after: "" }] };
    await expect(proveTask({ backend, libraries }, broken)).rejects.toThrow(/does not fit the library/u);
  });

  it("refuses a library without tests that can be relied on", async () => {
    const pin = { ...SMALL_PIN, name: "other", suite: { ...SMALL_PIN.suite, tests: ["setup.cfg"] } };
    await expect(makeLibrary(pin, { folder, sources: smallSources, backend })).rejects.toThrow(
      /other-1\.0\.0 cannot be/u,
    );
    const known = { ...SMALL_PIN, suite: { ...SMALL_PIN.suite, packages: ["json"] } };
    await expect(makeLibrary(known, { folder, sources: smallSources, backend })).rejects.toThrow(
      /system's Python has it/u,
    );
  });
});
