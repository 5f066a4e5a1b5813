// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";
import { TEST_STATUSES } from "./test-status.ts";

const Statuses = z.record(z.string().min(1), z.enum(TEST_STATUSES));

function jsonOf(text: string, context: z.RefinementCtx<string>): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    context.addIssue({ code: "custom", message: "must be JSON text" });
    return z.NEVER;
  }
}

/** A row of R2E-Gym's data sets. */
export const R2E_GYM_FIELDS = {
  repo_name: z.string().min(1).max(200).describe('"sympy", "pandas", …'),
  docker_image: z.string().min(1).max(500).describe("container image with the repository in /testbed"),
  commit_hash: z
    .string()
    .regex(/^[\w.-]{1,200}$/u)
    .describe("names the task"),
  problem_statement: z.string().min(1).max(500_000).describe("what the agent is told, within [ISSUE] marks or without"),
  expected_output_json: z
    .union([z.string().transform(jsonOf), Statuses])
    .pipe(Statuses.refine((tests) => Object.keys(tests).length > 0, { error: "names no test" }))
    .describe("the status that every test must have"),
} as const;

const unused = z.unknown().describe("column of the data set; not used");

/** Columns that nothing here needs. */
export const R2E_GYM_OTHER_COLUMNS = {
  parsed_commit_content: unused,
  execution_result_content: unused,
  modified_files: unused,
  modified_entity_summaries: unused,
  relevant_files: unused,
  num_non_test_files: unused,
  num_non_test_func_methods: unused,
  num_non_test_lines: unused,
  prompt: unused,
} as const;

export type R2eGymRow = z.output<z.ZodObject<typeof R2E_GYM_FIELDS>>;

/** The data sets put what the agent is told between marks. */
export function issueOf({ problem_statement }: Pick<R2eGymRow, "problem_statement">): string {
  return /\[ISSUE\](.*)\[\/ISSUE\]/su.exec(problem_statement)?.[1]?.trim() ?? problem_statement;
}
