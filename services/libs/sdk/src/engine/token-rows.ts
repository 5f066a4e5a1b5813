// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Step } from "../types.ts";

/** Where a prompt left the ids before it. */
export interface TokenBreak {
  /** Index of the step. */
  readonly step: number;
  /** Index into its prompt. */
  readonly position: number;
  /** The id that stood there before. */
  readonly expected: number;
  /** The id that stands there. Absent: the prompt ends before. */
  readonly found?: number;
}

export interface TokenRow {
  readonly promptTokens: readonly number[];
  readonly responseTokens: readonly number[];
  readonly responseMasks: readonly (0 | 1)[];
  readonly logprobs: readonly number[];
  readonly tokenBreak?: TokenBreak;
}

interface Ids {
  readonly promptIds: readonly number[];
  readonly completionIds: readonly number[];
  readonly logprobs: readonly number[];
}

/**
 * One row of a trajectory's exact ids: the first prompt, then by turns what was sampled (mask 1) and what the next prompt
 * added to it (mask 0). A prompt that does not begin with all ids so far ends the row and is reported.
 * @param limit  most response tokens.
 */
export function assembleTokens(steps: readonly Step[], limit = Number.POSITIVE_INFINITY): TokenRow {
  const calls = steps.map(idsOf);
  const promptTokens = calls[0]?.promptIds ?? [];
  const all = [...promptTokens];
  const responseMasks: (0 | 1)[] = [];
  const logprobs: number[] = [];
  const add = (ids: readonly number[], mask: 0 | 1, values?: readonly number[]): void => {
    ids.forEach((id, i) => {
      all.push(id);
      responseMasks.push(mask);
      logprobs.push(values?.[i] ?? 0);
    });
  };
  let tokenBreak: TokenBreak | undefined;
  for (const [step, { promptIds, completionIds, logprobs: values }] of calls.entries()) {
    tokenBreak = breakOf(all, promptIds, step);
    if (tokenBreak !== undefined) break;
    add(promptIds.slice(all.length), 0);
    add(completionIds, 1, values);
  }
  return {
    promptTokens,
    responseTokens: all.slice(promptTokens.length, promptTokens.length + limit),
    responseMasks: responseMasks.slice(0, limit),
    logprobs: logprobs.slice(0, limit),
    ...(tokenBreak === undefined ? {} : { tokenBreak }),
  };
}

function breakOf(before: readonly number[], prompt: readonly number[], step: number): TokenBreak | undefined {
  const position = before.findIndex((id, i) => prompt[i] !== id);
  if (position < 0) return undefined;
  const found = prompt[position];
  return { step, position, expected: before[position] as number, ...(found === undefined ? {} : { found }) };
}

function idsOf({ promptIds, completionIds, logprobs }: Step, index: number): Ids {
  if (promptIds && completionIds && logprobs) return { promptIds, completionIds, logprobs };
  const message = `step ${index} has no token ids: play with the engine option returnTokenIds, or in the mode Token`;
  throw new WhetstoneError("FAILED_PRECONDITION", message);
}
