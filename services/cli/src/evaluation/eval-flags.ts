// SPDX-License-Identifier: Apache-2.0
/** What `whet eval` was told, checked. */
import { badInput, type Violation } from "../cli-error.ts";
import { parseKs, parseTasks } from "./eval-spec.ts";

/** The options as they stand on the command line. */
export interface EvalWords {
  readonly name?: string;
  readonly attempts: string;
  readonly k?: string;
  readonly tasks?: string;
  readonly dataset?: readonly string[];
  readonly take?: string;
  readonly concurrency?: string;
  readonly seed?: string;
  readonly temperature?: string;
  readonly topP?: string;
  readonly topK?: string;
  readonly minP?: string;
  readonly maxTokens?: string;
}

export interface EvalOptions {
  readonly attempts: number;
  readonly ks: readonly number[];
  readonly seeds?: { readonly first: number; readonly count: number };
  readonly take?: number;
  readonly concurrency?: number;
  readonly sampling: Readonly<Record<string, number>>;
}

/** @throws bad input with every violation */
export function readEvalWords(words: EvalWords): EvalOptions {
  const violations: Violation[] = [];
  const whole = (path: string, text: string | undefined): number | undefined =>
    checked(violations, { path, text, isGood: (value) => Number.isInteger(value) && value >= 1, needs: WHOLE });
  const share = (path: string, text: string | undefined): number | undefined =>
    checked(violations, { path, text, isGood: (value) => value >= 0, needs: "must be a number of at least 0" });
  const attempts = whole("--attempts", words.attempts) ?? 1;
  const [take, concurrency] = [whole("--take", words.take), whole("--concurrency", words.concurrency)];
  const sampling = {
    temperature: share("--temperature", words.temperature),
    topP: share("--top-p", words.topP),
    topK: whole("--top-k", words.topK),
    minP: share("--min-p", words.minP),
    maxTokens: whole("--max-tokens", words.maxTokens),
  };
  if (words.seed !== undefined && !/^\d+$/.test(words.seed))
    violations.push({ path: "--seed", reason: `must be a whole number of at least 0, not "${words.seed}"` });
  if (words.tasks !== undefined && words.dataset !== undefined)
    violations.push({ path: "--tasks", reason: "cannot be given beside --dataset" });
  if (violations.length > 0) throw badInput(violations);
  return {
    attempts,
    ks: words.k === undefined ? defaultKs(attempts) : parseKs(words.k, attempts),
    ...(words.tasks === undefined ? {} : { seeds: parseTasks(words.tasks) }),
    ...(take === undefined ? {} : { take }),
    ...(concurrency === undefined ? {} : { concurrency }),
    sampling: given(sampling),
  };
}

const WHOLE = "must be a whole number of at least 1";

interface Checked {
  readonly path: string;
  readonly text: string | undefined;
  readonly isGood: (value: number) => boolean;
  readonly needs: string;
}

function checked(violations: Violation[], { path, text, isGood, needs }: Checked): number | undefined {
  if (text === undefined) return undefined;
  const value = text.trim() === "" ? NaN : Number(text);
  if (isGood(value)) return value;
  violations.push({ path, reason: `${needs}, not "${text}"` });
  return undefined;
}

function given(values: Readonly<Record<string, number | undefined>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, number] => entry[1] !== undefined),
  );
}

/** 1, and as many as there are. */
function defaultKs(attempts: number): number[] {
  return attempts === 1 ? [1] : [1, attempts];
}
