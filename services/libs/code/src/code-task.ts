// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

const MAX_TEXT = 4 * 1024 * 1024;
const MAX_CASES = 1000;

const Text = z.string().max(MAX_TEXT);
/** "f", or "Solution.f": the method of a new instance. */
const Name = z.string().regex(/^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?$/u, "must be a name, or Class.method");

const StdinTests = z.strictObject({
  kind: z.literal("stdin"),
  cases: z
    .array(z.strictObject({ input: Text, output: Text }))
    .min(1)
    .max(MAX_CASES)
    .describe("what the program reads, and what it has to print"),
});

const FunctionTests = z.strictObject({
  kind: z.literal("function"),
  name: Name.describe("of the function, or Class.method"),
  cases: z
    .array(z.strictObject({ arguments: z.array(z.json()).max(100), result: z.json() }))
    .min(1)
    .max(MAX_CASES)
    .describe("JSON values; a tuple is a list"),
});

const CheckTests = z.strictObject({
  kind: z.literal("check"),
  name: Name.describe("of the function that the program has to define, or Class.method"),
  code: Text.describe("Python that defines check(candidate), which raises for a wrong program"),
  setup: Text.default("").describe("Python that is run before it: what the task's text defines"),
});

/** How a program is tested. Tests never run in the program's process, and what they expect is not in its sandbox. */
export const CodeTests = z.discriminatedUnion("kind", [StdinTests, FunctionTests, CheckTests]);
export type CodeTests = z.output<typeof CodeTests>;

/** Why a case failed. WRONG: another answer. ERROR: an exception, an exit code. The others name the limit. */
export const CASE_FAILURES = ["WRONG", "ERROR", "TIME", "MEMORY", "OUTPUT"] as const;
export type CaseFailure = (typeof CASE_FAILURES)[number];

export interface FailedCase {
  /** From 0. */
  readonly index: number;
  readonly failure: CaseFailure;
  /** What was seen: the traceback's end, or the output. */
  readonly message: string;
}

export interface Verdict {
  readonly passed: number;
  readonly total: number;
  /** In order. With `stopAtFailure` it is one at most. */
  readonly failed: readonly FailedCase[];
}

export interface CodeLimits {
  /** CPU time of one case, seconds: a busy machine makes no program wrong. */
  readonly caseSeconds: number;
  /** Of the program with its files, MiB. */
  readonly memoryMiB: number;
}
