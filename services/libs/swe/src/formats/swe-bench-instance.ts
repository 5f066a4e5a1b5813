// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";
import { readEvalScript } from "./eval-script.ts";
import { LOG_PARSERS, PARSER_OF_REPOSITORY } from "./log-parsers/registry.ts";
import { EVAL_TYPES } from "./swe-bench-verdict.ts";

/** A list, or as the data sets have it, JSON text of one. */
const TestNames = z
  .union([z.string(), z.array(z.string())])
  .transform(listOf)
  .pipe(z.array(z.string().min(1)).max(100_000));

function listOf(value: string | string[], context: z.RefinementCtx): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    context.addIssue({ code: "custom", message: "must be a list of tests, or such a list as JSON text" });
    return z.NEVER;
  }
}

/** A row of SWE-bench's data sets, of version 5 and of those before it that came with an `eval_script`. */
export const SWE_BENCH_FIELDS = {
  instance_id: z
    .string()
    .regex(/^[\w.-]{1,200}$/u)
    .describe('"owner__name-number"'),
  repo: z.string().min(1).max(200).describe('"owner/name"'),
  problem_statement: z.string().min(1).max(500_000).describe("what the agent is told"),
  image: z.string().min(1).max(500).optional().describe("container image; default: SWE-bench's own for the instance"),
  eval_script: z.string().min(1).max(2_000_000).describe("puts the tests in place and runs them between two marks"),
  log_parser: z.string().optional().describe("how the tests' output is read; default: the repository's"),
  eval_type: z
    .enum(EVAL_TYPES)
    .default("pass_and_fail")
    .describe("what a test that the output does not name counts as"),
  FAIL_TO_PASS: TestNames.pipe(z.array(z.string()).min(1)).describe("tests that a repair makes pass"),
  PASS_TO_PASS: TestNames.describe("tests that pass before and have to go on passing"),
  patch: z.string().max(10_000_000).default("").describe("the repair; the agent never sees it"),
  test_patch: z.string().max(10_000_000).describe("the tests; the eval script applies it, the agent never sees it"),
} as const;

const unused = z.unknown().describe("column of the data set; not used");

/** Columns that nothing here needs. */
export const SWE_BENCH_OTHER_COLUMNS = {
  base_commit: unused,
  hints_text: unused,
  created_at: unused,
  version: unused,
  environment_setup_commit: unused,
  difficulty: unused,
} as const;

export type SweBenchRow = z.output<z.ZodObject<typeof SWE_BENCH_FIELDS>>;

/** The rules between fields. */
export function checkSweBenchRow(row: SweBenchRow, context: z.RefinementCtx): void {
  const issue = (path: string, message: string): void => context.addIssue({ code: "custom", path: [path], message });
  const parser = parserNameOf(row);
  if (parser === undefined) issue("log_parser", `is missing, and none is known for ${row.repo}`);
  else if (!LOG_PARSERS.has(parser))
    issue("log_parser", `"${parser}" is not built in; there are: ${[...LOG_PARSERS.keys()].join(", ")}`);
  if (readEvalScript(row.eval_script) === undefined)
    issue("eval_script", `has no tests between the lines ">>>>> Start Test Output" and ">>>>> End Test Output"`);
}

export function parserNameOf({ log_parser, repo }: Pick<SweBenchRow, "log_parser" | "repo">): string | undefined {
  return log_parser ?? PARSER_OF_REPOSITORY.get(repo);
}

/** Where SWE-bench publishes the image of an instance. */
export function imageOf({ image, instance_id }: Pick<SweBenchRow, "image" | "instance_id">): string {
  return image ?? `swebench/sweb.eval.x86_64.${instance_id.toLowerCase().replaceAll("__", "_1776_")}:latest`;
}
