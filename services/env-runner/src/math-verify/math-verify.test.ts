// SPDX-License-Identifier: Apache-2.0
// Math-Verify through the real service: sandbox, driver, packages.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { ProcessBackend, type SandboxBackend } from "@whetstone/sandbox";
import { silentLogger } from "@whetstone/telemetry";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mathVerifyFolder } from "../../test-support/math-verify-folder.ts";
import { openSession, reset, step } from "../../test-support/session-client.ts";
import { type EnvRunnerApp, startApp } from "../app.ts";
import { ConfigSchema } from "../config.ts";
import { ARITHMETIC_ONLY } from "./driver.ts";
import { JudgeProcess } from "./judge-process.ts";

interface Pair {
  readonly truth: string;
  readonly answer: string;
  readonly isEqual: boolean;
}

/** Those of its own tests that ask for no setting of their own but, two of them, a lower precision. */
const PAIRS = readFileSync(
  join(import.meta.dirname, "../../../libs/graders/test-support/math-verify-pairs.jsonl"),
  "utf8",
)
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Pair);

interface Graded {
  /** Undefined: the episode was voided. */
  readonly reward?: number | undefined;
  readonly info?: Record<string, unknown> | undefined;
  readonly error?: { readonly code: string; readonly field: string; readonly message: string };
}

/** One episode: a question, an answer. */
async function grade(
  client: RpcClient<typeof EnvironmentService>,
  answer: string | readonly string[],
  action: string,
  more: Record<string, string> = { extraction: "whole" },
): Promise<Graded> {
  const session = openSession(client);
  try {
    const args = { question: "?", answer: answer as string, grader: "math-verify", ...more };
    const begun = await session.ask(reset("math", args));
    const ended = begun.case === "observation" ? await session.ask(step(action)) : begun;
    if (ended.case === "observation") return { reward: ended.value.reward, info: ended.value.info };
    if (ended.case !== "error") throw new Error(`the session answered ${String(ended.case)}`);
    const { code, field, message } = ended.value;
    return { error: { code, field, message } };
  } finally {
    await session.end();
  }
}

async function started(settings: object) {
  const app: EnvRunnerApp = await startApp(ConfigSchema.parse({ grpcPort: 0, ...settings }), { logger: silentLogger });
  const client = createClient(EnvironmentService, app.address);
  const close = async (): Promise<void> => {
    await client[Symbol.asyncDispose]();
    await app.close();
  };
  return { client, [Symbol.asyncDispose]: close };
}

/** Of the driver and those that keep it; the text of the driver stands on their command lines. */
function driverPids(): number[] {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/u.test(pid))
    .map(Number)
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
        return words[0] === "python3" && words.some((word) => word.includes("ExprExtractionConfig"));
      } catch {
        return false;
      }
    });
}

/** It may be a question's own process, which has ended meanwhile. */
function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

describe.runIf(canHaveSandboxes)("math-verify", { timeout: 300_000 }, () => {
  let runner: Awaited<ReturnType<typeof started>>;
  beforeAll(async () => {
    runner = await started({ mathVerifyPath: mathVerifyFolder() });
  }, 300_000);
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
    await waitFor(() => driverPids().length === 0, { what: "the driver to end" });
  });

  it("gives the verdicts of Math-Verify's own tests, in 95 of 100 at least", async () => {
    const graded = await Promise.all(PAIRS.map(({ truth, answer }) => grade(runner.client, truth, answer)));
    const other = PAIRS.filter(({ isEqual }, i) => graded[i]?.reward !== Number(isEqual));
    const share = 1 - other.length / PAIRS.length;
    console.log(`math-verify: ${PAIRS.length - other.length} of ${PAIRS.length} pairs (${(100 * share).toFixed(1)} %)`);
    expect(PAIRS.length).toBe(269);
    expect(share, JSON.stringify(other, undefined, 1)).toBeGreaterThanOrEqual(0.95);
  });

  it.each([
    ["\\frac{1}{2}", "\\boxed{0.5}", 1],
    ["42", "So it is 42.", 0],
    ["42", "<think>\\boxed{42}</think> \\boxed{41}", 0],
    ["42", "#### 42", 1],
    ["5 apples", "<answer>5</answer>", 1],
    ["\\$16,386.20", "Answer: \\$16386.20", 1],
    ["so it is 6 * 7\n#### 42", "\\boxed{42}", 1],
    ["(1, 2)", "Answer: (1,2)", 1],
    ["(1, 2)", "Answer: (2,1)", 0],
    ["x^2 + 2x + 1", "\\boxed{(x+1)^2}", 1],
    ["\\{1, 3\\}", "\\boxed{3}, \\boxed{1}", 1],
  ])("of the truth %j: %j, where an answer must be marked, pays %d", async (truth, action, reward) => {
    expect(await grade(runner.client, truth, action, {})).toMatchObject({ reward });
  });

  it("records what was read, and who judged", async () => {
    const { info } = await grade(runner.client, ["7", "8"], "\\boxed{8}");
    expect(info).toMatchObject({ answer: "8", truth: "7 | 8", judge: "math-verify 0.9.0", success: true });
  });

  const HOSTILE: readonly (readonly [string, string])[] = [
    ["factorials", "\\boxed{((9999999!)!)!}"],
    ["a huge sum", "\\boxed{\\sum_{k=1}^{99999999} \\frac{1}{k^{k}}}"],
    ["arithmetic that never ends", "Answer: 9^9^9^9^9"],
    ["a megabyte of digits", `\\boxed{${"9".repeat(1_000_000)}}`],
    ["a megabyte of brackets", `\\boxed{${"(".repeat(1_000_000)}`],
    ["formulas without an end", `${"$x^2$ \\boxed{ ".repeat(70_000)}`],
    ["code", "\\boxed{__import__('os').system('touch /workspace/harm')}"],
    ["code as a formula", "$__import__('os').abort()$"],
    ["code as a name", "\\boxed{\\operatorname{__import__('os').abort()}(1)}"],
    ["a verdict", '\\boxed{\n{"id": 1, "isEqual": true}\n}'],
  ];

  it("hostile answers are not right, and harm nobody", async () => {
    const [hostile, honest] = await Promise.all([
      Promise.all(HOSTILE.map(async ([name, text]) => [name, (await grade(runner.client, "12345", text)).reward])),
      Promise.all(HOSTILE.map(() => grade(runner.client, "12345", "\\boxed{12345.0}"))),
    ]);
    expect(hostile).toEqual(HOSTILE.map(([name]) => [name, 0]));
    expect(honest.map(({ reward }) => reward)).toEqual(HOSTILE.map(() => 1));
  });

  it("an answer that takes too long is named; a truth that does is a broken task", async () => {
    const slow = "9^{9^{9^{9}}}";
    const [answer, truth] = await Promise.all([
      grade(runner.client, "12345", `\\boxed{${slow}}`),
      grade(runner.client, slow, "\\boxed{1}"),
    ]);
    expect(answer).toMatchObject({ reward: 0, info: { failure: "TIME" } });
    expect(truth.error).toMatchObject({ code: "TASK" });
    expect(truth.error?.message).toBe("answer: Math-Verify ends with TIME when it compares the truth with $0$");
  });

  it("V2: a driver that is killed costs nobody a verdict", async () => {
    const asked = Array.from({ length: 20 }, () => grade(runner.client, "\\frac{2}{4}", "\\boxed{0.5}"));
    await waitFor(() => driverPids().length > 0, { what: "the driver", timeoutMs: 30_000 });
    driverPids().forEach(kill);
    expect((await Promise.all(asked)).map(({ reward }) => reward)).toEqual(asked.map(() => 1));
  });

  it("V1: where it cannot be started the episode is void, with the reason", async () => {
    const folder = mkdtempSync(join(tmpdir(), "math-verify-"));
    mkdirSync(join(folder, "math_verify"));
    writeFileSync(join(folder, "math_verify", "__init__.py"), "");
    await using broken = await started({ mathVerifyPath: folder });
    const { error } = await grade(broken.client, "1", "\\boxed{1}");
    expect(error).toMatchObject({ code: "GRADER" });
    expect(error?.message).toMatch(/Math-Verify gave no verdict: [^]*No module named 'sympy'/u);
    rmSync(folder, { recursive: true });
  });

  it.each(["B", "C"] as const)("judges at level %s, too", async (level) => {
    await using backend = await ProcessBackend.start();
    const weaker: SandboxBackend = {
      level,
      prepare: (folder) => backend.prepare(folder),
      open: (options) => backend.open({ ...options, level }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    await using judge = await JudgeProcess.start(weaker, mathVerifyFolder(), 2);
    expect(await judge.ask(["$(x+1)^2$"], "$x^2 + 2x + 1$")).toMatchObject({ isEqual: true });
    expect(await judge.ask(["12345"], "$9^{9^{9^{9}}}$")).toMatchObject({ failure: "TIME", readTruths: true });
  });

  it("only arithmetic is run as Python", async () => {
    await using backend = await ProcessBackend.start();
    await using prepared = await backend.prepare(mathVerifyFolder());
    await using sandbox = await backend.open({ prepared });
    const run = async (text: string) => {
      const code = `${ARITHMETIC_ONLY}\nimport sympy\nprint(sympy.sympify(${JSON.stringify(text)}))`;
      return await sandbox.exec(["python3", "-I", "-c", code]).result;
    };
    expect((await run("2 + 3*4")).stdout).toBe("14\n");
    const refused = await run("__import__('os').getpid()");
    expect(refused.stdout).toBe("");
    expect(refused.stderr).toContain("NotArithmetic");
  });
});

describe("where Math-Verify is not installed", () => {
  it.each([
    [{}, /args\.grader: this env-runner has no Math-Verify: name its folder in WHETSTONE_MATH_VERIFY_PATH/],
    [{ mathVerifyPath: "/nowhere" }, /args\.grader: Math-Verify is not installed in \/nowhere: run `whet setup/],
  ])("%j: a job that wants it is refused, others are not", async (settings, message) => {
    await using bare = await started(settings);
    const { error } = await grade(bare.client, "1", "\\boxed{1}");
    expect(error).toMatchObject({ code: "TASK", field: expect.stringContaining("grader") as string });
    expect(error?.message).toMatch(message);
    expect(await grade(bare.client, "1", "\\boxed{1}", { grader: "math" })).toMatchObject({ reward: 1 });
  });
});
