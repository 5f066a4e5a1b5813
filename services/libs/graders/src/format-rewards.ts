// SPDX-License-Identifier: Apache-2.0
import type { RewardFunction, RewardOutput } from "@whetstone/sdk";

// Rewards for the form of an answer, 1 or 0; `combineRewards` weighs them against what the answer says.

function formed(isCorrect: boolean): RewardOutput {
  return { reward: isCorrect ? 1 : 0, isCorrect, metadata: {} };
}

/** One `<think>…</think>` (the opening tag may be in the prompt), then an answer. */
export const thinkFormatReward: RewardFunction = (_task, action) => {
  const [thought, answer, ...more] = action.split("</think>");
  const opens = action.split("<think>").length - 1;
  const rightOpening = opens === 0 || (opens === 1 && action.trimStart().startsWith("<think>"));
  const whole = thought?.replace("<think>", "").trim() !== "" && answer !== undefined && answer.trim() !== "";
  return formed(rightOpening && whole && more.length === 0);
};

const TAGS = ["<think>", "</think>", "<answer>", "</answer>"];

/** Nothing but `<think>…</think><answer>…</answer>`, each once, neither empty. Linear in the text's length. */
export const thinkAnswerFormatReward: RewardFunction = (_task, action) => {
  const once = TAGS.every((tag) => action.split(tag).length === 2);
  const [before, thought, between, answer, after] = action.split(/<\/?(?:think|answer)>/u);
  const outside = `${before}${between}${after}`.trim();
  const order = [...action.matchAll(/<\/?(?:think|answer)>/gu)].map(([tag]) => tag).join("");
  return formed(once && order === TAGS.join("") && outside === "" && thought?.trim() !== "" && answer?.trim() !== "");
};

/** The answer is in a `\boxed{}` with something in it. */
export const boxedFormatReward: RewardFunction = (_task, action) => formed(/\\boxed\s*\{\s*[^\s}]/u.test(action));
