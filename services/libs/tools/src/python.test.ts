// SPDX-License-Identifier: Apache-2.0
import { ProcessBackend, SandboxError } from "@whetstone/sandbox";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes } from "@whetstone/testkit";
import { PythonTool } from "./python.ts";
import { ToolEnvironment, type ToolOutputs } from "./tool-environment.ts";

describe.runIf(canHaveSandboxes)("python", () => {
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
  });

  /** An environment whose one tool is Python. */
  async function opened(timeoutMs = 20_000, more: Partial<ConstructorParameters<typeof ToolEnvironment>[0]> = {}) {
    const limits = { memoryMiB: 128, processes: 30 };
    const environment = new ToolEnvironment({
      task: { question: "?", answer: 1 },
      tools: () => [new PythonTool(backend, { timeoutMs, limits, maxOutputBytes: 400 })],
      rewardFunction: () => ({ reward: 0, isCorrect: false, metadata: {} }),
      maxSteps: 100,
      ...more,
    });
    await environment.reset();
    const run = async (...codes: string[]) => {
      const calls = codes.map((code, i) => ({ id: `c${i}`, name: "python", argumentsJson: JSON.stringify({ code }) }));
      const { observation, info } = await environment.step(calls);
      return { outputs: (observation as ToolOutputs).toolOutputs.map(({ output }) => output), info };
    };
    return { environment, run, [Symbol.asyncDispose]: () => environment.close() };
  }

  it("keeps names from call to call, and shows the last expression", async () => {
    await using python = await opened();
    expect((await python.run("x = 20\ndef f(n):\n  return n * 2")).outputs).toEqual([""]);
    expect((await python.run("print('hi')\nf(x) + 2", "y = x")).outputs).toEqual(["hi\n42\n", ""]);
    expect(await python.run("y")).toMatchObject({
      outputs: ["20\n"],
      info: { sandboxLevel: backend.level, toolCalls: 4 },
    });
  });

  it("shows what went wrong as Python does, without what runs it", async () => {
    await using python = await opened();
    const { outputs } = await python.run(
      "def f():\n  return 1 / 0",
      "f()",
      "def",
      "import sys; sys.exit(3)",
      "'still here'",
    );
    expect(outputs[1]).toMatch(
      /^Traceback .*\n {2}File "<call 2>", line 1, in <module>\n {4}f\(\)\n {2}File "<call 1>", line 2, in f\n/u,
    );
    expect(outputs[1]).toContain("return 1 / 0");
    expect(outputs[1]).toMatch(/ZeroDivisionError: division by zero\n$/u);
    expect(outputs[2]).toContain("SyntaxError: invalid syntax");
    expect(outputs.slice(3)).toEqual(["SystemExit: 3\n", "'still here'\n"]);
  });

  it("ends code at its deadline, and keeps names where it can", async () => {
    await using python = await opened(400);
    await python.run("x = 1");
    expect((await python.run("print('a'); import time; time.sleep(60)")).outputs[0]).toMatch(
      /^Error: a\n[^]*took longer than 400 ms; names are kept/u,
    );
    expect((await python.run("x")).outputs).toEqual(["1\n"]);
    const stubborn = "import time\nwhile True:\n  try: time.sleep(60)\n  except BaseException: pass";
    expect((await python.run(stubborn)).outputs[0]).toMatch(/could not be interrupted. Names are lost/u);
    expect((await python.run("'x' in globals()")).outputs[0]).toMatch(/started anew: [^]*\nFalse\n$/u);
  });

  it("says which limit ended the interpreter", async () => {
    await using python = await opened();
    if (backend.level === "A")
      expect((await python.run("x = bytearray(300_000_000)")).outputs[0]).toMatch(/more memory than it may/u);
    expect((await python.run("import os; os._exit(7)")).outputs[0]).toMatch(/ended with exit code 7/u);
    expect((await python.run("while True: print('x' * 10_000)")).outputs[0]).toMatch(/printed too much/u);
    expect((await python.run("1")).outputs[0]).toMatch(/started anew/u);
  });

  it("bounds an output: its beginning and its end", async () => {
    await using python = await opened();
    const { outputs } = await python.run("for i in range(5000): print(i)");
    expect(outputs[0]).toMatch(/^0\n1\n[^]*\n… \d+ bytes of output left out …\n[^]*\n4999\n$/u);
    expect(outputs[0]?.length).toBeLessThan(500);
    const child = "import subprocess\nsubprocess.run(['sh', '-c', 'echo out; echo err >&2; cat'])\nprint(input())";
    expect((await python.run(child)).outputs[0]).toMatch(/^out\nerr\n[^]*EOFError/u);
  });

  it("is closed with its environment, and is nobody else's", async () => {
    const one = await opened();
    await using other = await opened();
    await one.run(
      "import os; secret = 1\nfor v in ['HOME', 'TMPDIR']: open(os.environ[v] + '/secret', 'w').write('1')",
    );
    expect(
      (
        await other.run(
          "import os; 'secret' in globals(), os.listdir(os.environ['HOME']) + os.listdir(os.environ['TMPDIR'])",
        )
      ).outputs,
    ).toEqual(["(False, [])\n"]);
    await one.environment.close();
    await one.environment.close();
  });

  it("I6: a sandbox that fails is not the policy's fault", async () => {
    const failing = { level: "A", open: () => Promise.reject(new SandboxError("START", "no room")) } as const;
    const tools = [new PythonTool(failing as never)];
    await using python = await opened(1000, { tools });
    await expect(python.run("1")).rejects.toMatchObject({ failureClass: "INFRASTRUCTURE", message: "no room" });
  });
});
