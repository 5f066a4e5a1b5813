// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StepResult } from "@whetstone/sdk";
import { ProcessBackend } from "@whetstone/sandbox";
import { canHaveSandboxes } from "@whetstone/testkit";
import { describe, expect, it, vi } from "vitest";
import { codeEnvironment } from "./code.ts";
import { mathEnvironment, mathReviseEnvironment } from "./math.ts";
import { MathVerify } from "../math-verify/math-verify.ts";
import { Sandboxes } from "../sandboxes/sandboxes.ts";
import { toolEnvironment } from "./tool.ts";

const graded = { question: "2+2?", answer: 4 };

const judge = new MathVerify({ folder: undefined, backend: () => Promise.reject(new Error("it is not asked")) });
const [math, mathRevise] = [mathEnvironment(judge), mathReviseEnvironment(judge)];

async function answer(environment: ReturnType<typeof math.create>, ...actions: unknown[]): Promise<StepResult> {
  await environment.reset({ seed: 1 });
  let result: StepResult | undefined;
  for (const action of actions) result = await environment.step(action, {});
  return result as StepResult;
}

describe("math", () => {
  it.each([
    [{}, "\\boxed{4}", 1],
    [{}, "4", 0],
    [{ extraction: "whole" }, "4", 1],
    [{ extraction: "lastNumber" }, "2 and 2 is 4", 1],
    [{ answer: ["four", 4] }, "Answer: four", 1],
    [{ grader: "exact", answer: "The Seine" }, "seine", 1],
    [{ grader: "f1", answer: "river Seine" }, "Seine", 2 / 3],
  ])("%j: %j pays %d", async (more, action, reward) => {
    expect((await answer(math.create({ ...graded, ...more }), action)).reward).toBeCloseTo(reward, 10);
  });

  it.each([
    [{ question: "2+2?" }, /args\.answer/],
    [{ ...graded, qestion: "?" }, /args\.qestion: unknown/],
    [{ ...graded, grader: "sympy" }, /args\.grader/],
    [{ ...graded, grader: "math-verify" }, /args\.grader: this env-runner has no Math-Verify/],
    [{ ...graded, answer: [] }, /args\.answer/],
  ])("refuses %j", (args, message) => {
    expect(() => math.create(args)).toThrow(message);
  });

  it("revises", async () => {
    const result = await answer(mathRevise.create({ ...graded, maxTurns: 3 }), "\\boxed{5}", "\\boxed{4}");
    expect(result).toMatchObject({ reward: 1, terminated: true });
  });
});

describe("tool", () => {
  const tool = toolEnvironment(new Sandboxes(), judge);
  const search = [{ id: "s", name: "search", argumentsJson: '{"query":"Seine"}' }];
  const documents = [{ id: "d1", text: "The Seine flows through Paris." }];
  const question = { question: "Which river?", answer: "Seine", grader: "exact" };

  it("calculates, searches documents of the arguments and of a file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-tool-"));
    const path = join(folder, "corpus.jsonl");
    writeFileSync(path, documents.map((document) => JSON.stringify(document)).join("\n"));
    for (const corpus of [documents, path]) {
      const environment = tool.create({ ...question, tools: ["calculator", "search"], corpus });
      expect(JSON.stringify((await answer(environment, search)).observation)).toContain("[Document 1] (ID: d1");
      expect(await environment.step("The Seine", {})).toMatchObject({
        reward: 1,
        info: { toolCalls: 1, toolErrors: 0 },
      });
    }
    rmSync(folder, { recursive: true });
  });

  it("search without a corpus is refused; a corpus that is not there is a broken task", async () => {
    expect(() => tool.create({ ...question, tools: ["search"] })).toThrow(/args\.corpus: search needs a corpus/);
    const missing = tool.create({ ...question, tools: ["search"], corpus: "/nowhere/corpus.jsonl" });
    await expect(missing.reset({ seed: 1 })).rejects.toMatchObject({ failureClass: "TASK" });
  });
});

describe.runIf(canHaveSandboxes)("tool, with code", () => {
  it("is refused at the reset, so that no job begins, where its language cannot be had", async () => {
    await using backend = await ProcessBackend.start();
    const open = backend.open.bind(backend);
    vi.spyOn(backend, "open").mockImplementation(async (options) => {
      const sandbox = await open(options);
      const exec = sandbox.exec.bind(sandbox);
      return Object.assign(sandbox, { exec: (command: string[]) => exec(command, { env: { PATH: "/nowhere" } }) });
    });
    const question = { question: "2+2?", answer: 4 };
    for (const [name, program] of [
      ["javascript", "node"],
      ["python", "python3"],
    ] as const) {
      const without = toolEnvironment({ backend: async () => backend } as unknown as Sandboxes, judge);
      await expect(without.create({ ...question, tools: [name] }).reset({ seed: 1 })).rejects.toMatchObject({
        failureClass: "INFRASTRUCTURE",
        message: expect.stringContaining(`the sandbox cannot run ${program}`) as string,
      });
    }
  });

  it("finds that out once", async () => {
    await using backend = await ProcessBackend.start();
    const open = vi.spyOn(backend, "open");
    const tool = toolEnvironment({ backend: async () => backend } as unknown as Sandboxes, judge);
    const args = { question: "2+2?", answer: 4, tools: ["javascript", "python"] };
    for (let i = 0; i < 3; i += 1) await tool.create(args).reset({ seed: i });
    expect(open).toHaveBeenCalledTimes(2);
  });
});

describe("code", () => {
  const code = codeEnvironment(new Sandboxes());

  it.each([
    [{ question: "?" }, /args\.tests/],
    [{ question: "?", tests: { kind: "stdin", cases: [] } }, /args\.tests\.cases/],
    [
      { question: "?", tests: { kind: "stdin", cases: [{ input: "", output: "" }] }, caseSeconds: 0 },
      /args\.caseSeconds/,
    ],
  ])("refuses %j", (args, message) => {
    expect(() => code.create(args)).toThrow(message);
  });

  const tests = { kind: "stdin", cases: [{ input: "", output: "" }] };
  const sandbox = { backend: "docker", image: "python:3.12" };

  it("has containers only where its env-runner may use an engine, and there is one", async () => {
    const play = async (sandboxes: Sandboxes) => {
      const environment = codeEnvironment(sandboxes).create({ question: "?", tests, sandbox });
      await environment.reset({ seed: 1 });
      return await environment.step("```python\n1\n```", {});
    };
    await using without = new Sandboxes();
    await expect(play(without)).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
      message: expect.stringContaining("WHETSTONE_SANDBOX_DAEMON_PATH") as string,
    });
    await using noDaemon = new Sandboxes({ daemonPath: "/nowhere/sandboxd" });
    await expect(play(noDaemon)).rejects.toThrow("there is no program /nowhere/sandboxd");
    expect(() => code.create({ question: "?", tests, sandbox: { ...sandbox, pull: "always" } })).toThrow(
      /args\.sandbox\.pull/,
    );
  });
});
