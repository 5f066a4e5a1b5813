// SPDX-License-Identifier: Apache-2.0
import { openTogether, type PolicyFailure, type SandboxBackend } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import {
  CASE_FAILURES,
  type CaseFailure,
  type CodeLimits,
  type CodeTests,
  type FailedCase,
  type Verdict,
} from "./code-task.ts";
import { LineProcess } from "./line-process.ts";
import { MAX_ANSWER_BYTES, PROGRAM_DRIVER, WALL_FACTOR } from "./program-driver.ts";
import { TESTS_DRIVER } from "./tests-driver.ts";

// J1: tests and program are in sandboxes of their own, and only questions and answers go between them: what is expected
// cannot be read, and nothing that the program prints, patches or leaves behind passes a test.
// J2: a program that fails is WRONG, …; tests that are broken are the task's fault, a sandbox that fails is ours (I6).

export interface JudgeOptions extends CodeLimits {
  /** Default: all cases are run. */
  readonly stopAtFailure?: boolean | undefined;
  /** What the program may connect to, each "host:port"; its tests reach nothing. Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** For two sandboxes and two interpreters to start. */
const START_SECONDS = 30;
const MAX_SECONDS = 3600;
/** Beyond a case's time on the clock: for its process to start, and its answer to be read. */
const ANSWER_SECONDS = 10;
/** Deadlines come before the end of the sandboxes: that would be our failure. */
const TTL_MORE_MS = 60_000;
const TESTS_LIMITS = { memoryMiB: 1024, processes: 16, diskMiB: 16 };
const PROGRAM_PROCESSES = 64;

const FAILURE_OF = {
  DEADLINE: "TIME",
  MEMORY: "MEMORY",
  PROCESSES: "ERROR",
  DISK: "OUTPUT",
  OUTPUT: "OUTPUT",
} as const satisfies Record<PolicyFailure, CaseFailure>;

type Said =
  | { readonly ask: unknown }
  | { readonly case: number; readonly failure: CaseFailure | null; readonly message: string }
  | { readonly done: true }
  | { readonly broken: string };

/**
 * Runs a program's tests. Source of the limits: LiveCodeBench's six seconds a case and (t + 1) n + 5 in all, here of CPU
 * time, and five times that on the clock.
 * @throws SandboxError; EpisodeError TASK for tests that cannot be run
 */
export async function judgeProgram(
  backend: SandboxBackend,
  program: string,
  tests: CodeTests,
  { caseSeconds, memoryMiB, stopAtFailure = false, reach, signal }: JudgeOptions,
): Promise<Verdict> {
  const total = tests.kind === "check" ? 1 : tests.cases.length;
  const deadlineMs = 1000 * Math.min(MAX_SECONDS, WALL_FACTOR * ((caseSeconds + 1) * total + 5) + START_SECONDS);
  const limits = { memoryMiB, diskMiB: memoryMiB, processes: PROGRAM_PROCESSES };
  const ttlMs = deadlineMs + TTL_MORE_MS;
  const both = await openTogether(backend, { limits, ttlMs, reach }, { limits: TESTS_LIMITS, ttlMs }, { signal });
  await using programSandbox = both[0];
  await using testsSandbox = both[1];
  const options = { deadlineMs, ...(signal && { signal }) };
  const asked = new LineProcess(programSandbox, PROGRAM_DRIVER, options);
  const asking = new LineProcess(testsSandbox, TESTS_DRIVER, options);
  const wall = WALL_FACTOR * caseSeconds;
  await asked.send({ program, seconds: Math.ceil(caseSeconds), bytes: MAX_ANSWER_BYTES, wall });
  await asking.send({ tests, stopAtFailure });
  return await judged(asking, (question) => answer(asked, question, 1000 * (wall + ANSWER_SECONDS)), total);
}

async function judged(
  asking: LineProcess,
  ask: (question: unknown) => Promise<unknown>,
  total: number,
): Promise<Verdict> {
  const failed: FailedCase[] = [];
  let [passed, answered] = [0, 0];
  for (;;) {
    const said = (await asking.next()) as Said | undefined;
    if (said === undefined) {
      failed.push(await unfinished(asking, passed + failed.length, answered));
      return { passed, total, failed };
    }
    if ("broken" in said) throw brokenTests(said.broken);
    if ("done" in said) return { passed, total, failed };
    if ("ask" in said) {
      await asking.send(await ask(said.ask));
      answered += 1;
    } else if (said.failure === null) passed += 1;
    else failed.push({ index: said.case, failure: said.failure, message: said.message });
  }
}

function brokenTests(why: string): EpisodeError {
  return new EpisodeError("TASK", `the tests cannot be run: ${why}`);
}

/** @throws SandboxError where it was not the program's doing */
async function answer(asked: LineProcess, question: unknown, timeoutMs: number): Promise<unknown> {
  await asked.send(question);
  const said = await asked.next(timeoutMs);
  if (isAnswer(said)) return said;
  asked.kill();
  const { failure } = await asked.result;
  return failure === undefined
    ? { failure: "ERROR", message: "the program ended the process that runs it" }
    : { failure: FAILURE_OF[failure], message: "" };
}

/** The program may have written it itself. */
function isAnswer(said: unknown): boolean {
  if (typeof said !== "object" || said === null) return false;
  const { output, value, failure, message } = said as Record<string, unknown>;
  return (
    [output, value].some((text) => typeof text === "string") || (isFailure(failure) && typeof message === "string")
  );
}

function isFailure(value: unknown): boolean {
  return CASE_FAILURES.includes(value as CaseFailure);
}

/**
 * The tests ran into a limit: over what the program answered, so that it failed there, or before they asked anything.
 * @throws SandboxError; EpisodeError TASK
 */
async function unfinished(asking: LineProcess, index: number, answered: number): Promise<FailedCase> {
  const { failure, exitCode } = await asking.result;
  if (failure !== undefined && answered > 0)
    return { index, failure: FAILURE_OF[failure], message: "while its answer was compared" };
  throw brokenTests(`they ended by ${failure === undefined ? `exit code ${exitCode}` : `the limit ${failure}`}`);
}
