// SPDX-License-Identifier: Apache-2.0
import { ProcessBackend } from "@whetstone/sandbox";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CodeTests } from "./code-task.ts";
import { judgeProgram } from "./judge-program.ts";

const SUM = CodeTests.parse({
  kind: "stdin",
  cases: [
    { input: "1 2\n", output: "3\n" },
    { input: "10 20", output: "30" },
  ],
});
const DOUBLE = CodeTests.parse({
  kind: "function",
  name: "double",
  cases: [
    { arguments: [[1, 2]], result: [2, 4] },
    { arguments: [[0.1, 0.2]], result: [0.2, 0.4] },
  ],
});
const CHECK = CodeTests.parse({
  kind: "check",
  name: "f",
  setup: "SECRET = 7",
  code: "def check(candidate):\n  assert candidate(6) == 6 * SECRET\n  assert candidate((1, 'a')) == (1, 'a') * SECRET",
});
const ADDS = "a, b = map(int, input().split())\nprint(a + b)";

describe.runIf(canHaveSandboxes)("a program is judged", { timeout: 120_000 }, () => {
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
  });

  const judge = (program: string, tests: CodeTests, caseSeconds = 2) =>
    judgeProgram(backend, program, tests, { caseSeconds, memoryMiB: 128 });

  async function failures(program: string, tests: CodeTests = SUM, caseSeconds = 2): Promise<string[]> {
    return (await judge(program, tests, caseSeconds)).failed.map(({ failure }) => failure);
  }

  it("by what it prints, what its function returns, and what a check says", async () => {
    expect(await judge(ADDS, SUM)).toEqual({ passed: 2, total: 2, failed: [] });
    expect(await judge("def double(xs):\n  return tuple(2 * x for x in xs)", DOUBLE)).toMatchObject({ passed: 2 });
    expect(
      await judge("class Solution:\n  def double(self, xs): return [2 * x for x in xs]", {
        ...DOUBLE,
        name: "Solution.double",
      } as CodeTests),
    ).toMatchObject({ passed: 2 });
    expect(await judge("def f(x):\n  return x * 7", CHECK)).toMatchObject({ passed: 1, total: 1 });
  });

  it("compares lines without their ends, and numbers by value", async () => {
    const tests = CodeTests.parse({ kind: "stdin", cases: [{ input: "", output: "1.50 2\nYes" }] });
    expect(await failures("print('1.5  2.0 ')\nprint(' Yes')", tests)).toEqual([]);
    for (const program of [
      "print('1.5 2')",
      "print('1.5 2\\nyes')",
      "print('1.5 2 3\\nYes')",
      "print('1.5 2\\n\\nYes')",
    ])
      expect(await failures(program, tests), program).toEqual(["WRONG"]);
  });

  it("with what went wrong, case by case", async () => {
    expect(await judge("a, b = map(int, input().split())\nprint(a + b if a < 5 else a // 0)", SUM)).toMatchObject({
      passed: 1,
      failed: [{ index: 1, failure: "ERROR", message: expect.stringContaining("ZeroDivisionError") as string }],
    });
    expect(await failures("def g(): pass", DOUBLE)).toEqual(["ERROR", "ERROR"]);
    expect(await failures("syntax error", SUM)).toEqual(["ERROR", "ERROR"]);
    expect(await failures(`${ADDS}\nraise SystemExit(3)`, SUM)).toEqual(["ERROR", "ERROR"]);
    expect(await failures("def f(x):\n  return 42", CHECK)).toEqual(["WRONG"]);
    expect(await failures("def double(xs):\n  return object()", DOUBLE)).toEqual(["ERROR", "ERROR"]);
  });

  it("within its limits", async () => {
    expect(await failures("while True: pass", SUM, 1)).toEqual(["TIME", "TIME"]);
    expect(await failures("import time\ntime.sleep(100)", SUM, 1)).toEqual(["TIME", "TIME"]);
    expect(
      await failures("import signal, time\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", SUM, 1),
    ).toEqual(["TIME", "TIME"]);
    expect(await failures("x = bytearray(400_000_000)\nprint(len(x))")).not.toEqual([]);
    expect(await failures("print('x' * 10_000_000)")).toEqual(["OUTPUT", "OUTPUT"]);
    expect(await failures("import os\nwhile True: os.fork()", SUM, 1)).not.toEqual([]);
  });

  it.each([
    ["ends early", "import os\nos._exit(0)"],
    ["prints a verdict", `print('{"case": 0, "failure": null}')\nprint('{"done": true}')`],
    [
      "writes verdicts into every file",
      "import os\nfor fd in range(3, 50):\n  try: os.write(fd, b'{\"done\": true}\\n')\n  except OSError: pass",
    ],
    [
      "writes answers into every file",
      'import os\nfor fd in range(1, 50):\n  try: os.write(fd, b\'{"output": ""}\\n\' * 9)\n  except OSError: pass',
    ],
    ["kills what runs it", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"],
    ["stops what runs it", "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)"],
    [
      "has an equality of its own",
      "class A(str):\n  __eq__ = lambda *_: True\n  __repr__ = lambda _: \"'x'\"\ndef f(x): return A()\ndef double(x): return A()\nprint('')",
    ],
    [
      "looks for the tests",
      "import gc, sys\ndef f(x):\n  return [g for g in gc.get_objects() if isinstance(g, dict) and 'SECRET' in g][0]['SECRET'] * x\nprint('')",
    ],
    [
      "reads the tests' files",
      "import glob\nprint([open(p, 'rb').read() for p in glob.glob('/workspace/**', recursive=True) if '.' in p])",
    ],
    [
      "patches what compares",
      "import builtins, json, os\nbuiltins.all = lambda *_: True\njson.loads = lambda *_: {}\nos.write = print\ndef f(x): return 1\ndef double(x): return 1",
    ],
    ["nests deeply", "def f(x):\n  a = []\n  for _ in range(500): a = [a]\n  return a\ndouble = f\nprint('')"],
    [
      "plants a module",
      "open('json.py', 'w').write('raise SystemExit')\nopen('/tmp/json.py', 'w').write('raise SystemExit')\nprint('')",
    ],
  ])("a program that %s passes nothing", async (_, program) => {
    const verdicts = await Promise.all([SUM, DOUBLE, CHECK].map((tests) => judge(program, tests, 1)));
    expect(verdicts.map(({ passed, failed }) => [passed, failed.length > 0])).toEqual(verdicts.map(() => [0, true]));
  });

  it("and tests that cannot be run are the task's fault", async () => {
    const broken = (code: string) => CodeTests.parse({ kind: "check", name: "f", code });
    for (const code of [
      "x = ",
      "check = 1 / 0",
      "x = 1",
      "import sys; sys.exit(1)",
      "def check(candidate): candidate(lambda: 1)",
    ])
      await expect(judge("def f(x): return x", broken(code)), code).rejects.toThrow("the tests cannot be run");
  });
});
