// SPDX-License-Identifier: Apache-2.0
import { ConfigError, parseOrThrow } from "@whetstone/core";
import { z } from "zod";
import type { CodeTests } from "./code-task.ts";

/** A task of the environment `code`, as a line of a dataset. */
export interface CodeTask {
  readonly id: string;
  readonly question: string;
  readonly tests: CodeTests;
  /** A program that passes, where the source has one. Not for the agent's eyes: it stays out of datasets. */
  readonly solution?: string | undefined;
}

const HumanEval = z.object({
  task_id: z.string().min(1),
  prompt: z.string().min(1),
  canonical_solution: z.string(),
  test: z.string().min(1),
  entry_point: z.string().min(1),
});

/**
 * A row of HumanEval (arXiv 2107.03374; github.com/openai/human-eval): the function's head and docstring are the question, and
 * the program has to define the function whole. @throws ConfigError
 */
export function fromHumanEval(row: unknown): CodeTask {
  const { task_id, prompt, canonical_solution, test, entry_point } = parseOrThrow(HumanEval, row, "");
  return {
    id: task_id,
    question: `Complete this Python function. Answer with the whole function in one code block.\n\n${prompt}`,
    tests: { kind: "check", name: entry_point, code: test, setup: prompt },
    solution: prompt + canonical_solution,
  };
}

const Case = z.object({ input: z.string(), output: z.string(), testtype: z.enum(["stdin", "functional"]) });
const LiveCodeBench = z.object({
  question_id: z.string().min(1),
  question_content: z.string().min(1),
  starter_code: z.string().default(""),
  public_test_cases: z.string(),
  private_test_cases: z.string().default("[]"),
  metadata: z.string().default("{}"),
});

/**
 * A row of LiveCodeBench (arXiv 2403.07974): public cases first, then the private ones, as JSON (the published file packs them:
 * LiveCodeBench's own loader writes them plainly). A call's arguments stand one a line as JSON. @throws ConfigError
 */
export function fromLiveCodeBench(row: unknown): CodeTask {
  const parsed = parseOrThrow(LiveCodeBench, row, "");
  const { question_id, question_content, starter_code } = parsed;
  const cases = [...casesOf(parsed, "public_test_cases"), ...casesOf(parsed, "private_test_cases")];
  const name = (json(parsed.metadata, "metadata") as { func_name?: string }).func_name;
  const start = starter_code === "" ? "" : `\n\nBegin with:\n\`\`\`python\n${starter_code}\n\`\`\``;
  const question = `${question_content}${start}\n\nAnswer with the whole Python program in one code block.`;
  if (cases.every(({ testtype }) => testtype === "stdin"))
    return {
      id: question_id,
      question,
      tests: { kind: "stdin", cases: cases.map(({ input, output }) => ({ input, output })) },
    };
  if (name === undefined) throw wrong("metadata", "func_name is missing");
  const ofCall = ({ input, output }: z.output<typeof Case>) => ({
    arguments: input.split("\n").map((line) => json(line, "input")),
    result: json(output, "output"),
  });
  const isMethod = starter_code.includes("class Solution");
  const tests = { kind: "function", name: isMethod ? `Solution.${name}` : name, cases: cases.map(ofCall) } as const;
  return { id: question_id, question, tests };
}

function casesOf(row: z.output<typeof LiveCodeBench>, field: "public_test_cases" | "private_test_cases") {
  return parseOrThrow(z.array(Case), json(row[field], field), field);
}

const Apps = z.object({
  problem_id: z.union([z.string(), z.number()]),
  question: z.string().min(1),
  starter_code: z.string().default(""),
  input_output: z.string(),
});
const InputOutput = z.object({
  fn_name: z.string().optional(),
  inputs: z.array(z.json()).min(1),
  outputs: z.array(z.json()).min(1),
});

/** A row of APPS or TACO (arXiv 2105.09938, 2312.14852): `input_output` is JSON with `inputs`, `outputs` and perhaps `fn_name`. */
export function fromApps(row: unknown): CodeTask {
  const { problem_id, question, starter_code, input_output } = parseOrThrow(Apps, row, "");
  const { fn_name, inputs, outputs } = parseOrThrow(InputOutput, json(input_output, "input_output"), "input_output");
  if (inputs.length !== outputs.length) throw wrong("input_output", "as many outputs as inputs are needed");
  const id = String(problem_id);
  if (fn_name === undefined) {
    const cases = inputs.map((input, i) => ({ input: lines(input), output: lines(outputs[i]) }));
    return { id, question, tests: { kind: "stdin", cases } };
  }
  const name = starter_code.includes("class Solution") ? `Solution.${fn_name}` : fn_name;
  const cases = inputs.map((input, i) => ({ arguments: input as never[], result: unwrapped(outputs[i]) }));
  return { id, question, tests: { kind: "function", name, cases } };
}

/** Some rows have lists of lines. */
function lines(value: unknown): string {
  return Array.isArray(value) ? value.join("\n") : String(value);
}

/** Results stand in a list of one. */
function unwrapped(value: unknown): never {
  return (Array.isArray(value) && value.length === 1 ? value[0] : value) as never;
}

/** @throws ConfigError */
function json(text: string, field: string): never {
  try {
    return JSON.parse(text) as never;
  } catch {
    throw wrong(field, "must be JSON");
  }
}

function wrong(path: string, reason: string): ConfigError {
  return new ConfigError([{ path, reason }]);
}
