// SPDX-License-Identifier: Apache-2.0
import { type RewardFunction, splitThinking } from "@whetstone/sdk";
import { extractAnswer, type Extraction } from "./extract-answer.ts";
import { type AnswerRewardOptions, shown, verdict } from "./math-reward.ts";
import { truthsOf } from "./truths.ts";

export interface MathVerdict {
  readonly isEqual: boolean;
  /** The part of the text that was read. */
  readonly answer: string | null;
  /** Name and version. */
  readonly judge: string;
  /** Why there is nothing to compare: the answer took too long, … */
  readonly failure?: string;
}

/** Who compares in the place of `mathEquivalent`. */
export interface MathJudge {
  /** @throws EpisodeError TASK for a truth that cannot be read; whatever else keeps the verdict away is no "not equal" */
  judge(truths: readonly string[], answer: string, signal?: AbortSignal): Promise<MathVerdict>;
}

/** Of a long text the end: the answer stands there. */
const MAX_CHARACTERS = 20_000;

/** `mathReward` by Math-Verify, which looks for the answer itself where the text has a box or nothing is marked. */
export function mathVerifyReward(judge: MathJudge, options: AnswerRewardOptions = {}): RewardFunction {
  const { truth: field = "answer", extraction = "marked" } = options;
  return async (task, action, { signal } = {}) => {
    const truths = truthsOf(task, field).map(truthText);
    const text = answerText(action, extraction);
    const truth = truths.join(" | ");
    if (text === undefined) return verdict(false, options, { answer: null, truth });
    const { isEqual, answer, ...more } = await judge.judge(truths, text, signal);
    return verdict(isEqual, options, { answer: shown(answer ?? undefined), truth, ...more });
  };
}

const BOX = /\\(?:boxed|fbox)/u;

function answerText(action: string, extraction: Extraction): string | undefined {
  const { answer } = splitThinking(action);
  const text = answer.slice(-MAX_CHARACTERS);
  const marked = extractAnswer(action, "marked");
  if (marked === undefined) return extraction === "marked" ? undefined : text;
  return BOX.test(text) ? text : asFormula(marked);
}

function truthText(truth: string): string {
  const at = truth.lastIndexOf("####");
  return asFormula(at < 0 ? truth : truth.slice(at + 4).trim());
}

const DELIMITED = /\$|\\\(|\\\[|\\boxed|\\fbox/u;
const NUMBER = /-?(?:\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)/u;
/** More than a number with words: another number, an operator, a variable. */
const FORMULA = /[\d\\_^={}[\]<>|()+*/,;:!-]|(?<![A-Za-z])[A-Za-z](?![A-Za-z])/u;

/** Math-Verify reads formulas between delimiters only, and a number with its unit only without. */
function asFormula(marked: string): string {
  const text = marked.replaceAll("\\$", "");
  return DELIMITED.test(text) || isNumber(text) ? text : `\\boxed{${text}}`;
}

function isNumber(text: string): boolean {
  const number = NUMBER.exec(text);
  return number !== null && !FORMULA.test(text.replace(number[0], " "));
}
