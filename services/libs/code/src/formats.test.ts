// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { CodeTests } from "./code-task.ts";
import { fromApps, fromHumanEval, fromLiveCodeBench } from "./formats.ts";

const cases = (testtype: string, ...pairs: [string, string][]): string =>
  JSON.stringify(pairs.map(([input, output]) => ({ input, output, testtype })));

const live = {
  question_id: "q",
  question_content: "Add.",
  starter_code: "",
  public_test_cases: cases("stdin", ["1 2", "3"]),
  private_test_cases: cases("stdin", ["2 2", "4"]),
  metadata: "{}",
};

describe("formats", () => {
  it("HumanEval: the head is the question, and what the check may use", () => {
    const prompt = 'def f(x):\n    """Doubles."""\n';
    const row = {
      task_id: "HumanEval/0",
      prompt,
      canonical_solution: "    return 2 * x\n",
      test: "def check(c): ...",
      entry_point: "f",
    };
    expect(fromHumanEval(row)).toMatchObject({
      id: "HumanEval/0",
      question: expect.stringContaining(prompt) as string,
      tests: { kind: "check", name: "f", setup: prompt },
      solution: `${prompt}    return 2 * x\n`,
    });
  });

  it("LiveCodeBench: public cases come first, calls have JSON lines", () => {
    expect(fromLiveCodeBench(live).tests).toEqual({
      kind: "stdin",
      cases: [
        { input: "1 2", output: "3" },
        { input: "2 2", output: "4" },
      ],
    });
    const row = {
      ...live,
      starter_code: "class Solution:\n    def add(self, xs, n):",
      public_test_cases: cases("functional", ["[1, 2]\n3", "6"]),
      private_test_cases: "[]",
      metadata: '{"func_name": "add"}',
    };
    expect(fromLiveCodeBench(row).tests).toEqual({
      kind: "function",
      name: "Solution.add",
      cases: [{ arguments: [[1, 2], 3], result: 6 }],
    });
  });

  it("APPS: inputs and outputs as texts, lines or arguments", () => {
    const row = (value: unknown) => ({ problem_id: 7, question: "?", input_output: JSON.stringify(value) });
    expect(fromApps(row({ inputs: ["1", ["1", "2"]], outputs: ["1", ["3"]] }))).toMatchObject({
      id: "7",
      tests: {
        kind: "stdin",
        cases: [
          { input: "1", output: "1" },
          { input: "1\n2", output: "3" },
        ],
      },
    });
    expect(fromApps(row({ fn_name: "f", inputs: [[1, 2]], outputs: [[3]] })).tests).toEqual({
      kind: "function",
      name: "f",
      cases: [{ arguments: [1, 2], result: 3 }],
    });
  });

  it.each([
    [() => fromHumanEval({ task_id: "x" }), /prompt/],
    [() => fromLiveCodeBench({ ...live, private_test_cases: "eJxrYJ0=" }), /private_test_cases: must be JSON/],
    [() => fromLiveCodeBench({ ...live, public_test_cases: cases("functional", ["1", "2"]) }), /func_name/],
    [() => fromApps({ problem_id: 1, question: "?", input_output: '{"inputs": ["1"], "outputs": []}' }), /outputs/],
    [() => CodeTests.parse({ kind: "function", name: "os.system()", cases: [] }), /name/],
  ])("refuses a row with its field %#", (read, message) => {
    expect(read).toThrow(message);
  });
});
