// SPDX-License-Identifier: Apache-2.0
export { extractAnswer, type Extraction } from "./extract-answer.ts";
export { boxedFormatReward, thinkAnswerFormatReward, thinkFormatReward } from "./format-rewards.ts";
export { mathEquivalent } from "./math-equivalence.ts";
export { type AnswerRewardOptions, mathReward } from "./math-reward.ts";
export { type MathJudge, type MathVerdict, mathVerifyReward } from "./math-verify-reward.ts";
export { MathError } from "./math-error.ts";
export { evaluateExpression } from "./math-evaluate.ts";
export { isWhole, type Rational, toNumber, type Value } from "./rational.ts";
export { exactMatchReward, type F1RewardOptions, f1Reward, normalizeAnswer } from "./text-match.ts";
