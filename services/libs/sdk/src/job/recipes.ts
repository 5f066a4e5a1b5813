// SPDX-License-Identifier: Apache-2.0
// What papers call an algorithm: settings of the policy gradient that stand for those which are not given. Sources and
// formulas: docs/algorithms.md.
import { type AlgorithmSettings, policyGradient } from "./algorithm.ts";
import type { PolicyGradientSettings } from "./generated/settings.ts";

type Recipe = (settings: PolicyGradientSettings) => AlgorithmSettings;

/** Group relative policy optimization: the defaults. arXiv 2402.03300. */
export const grpo: Recipe = policyGradient;

/** Proximal policy optimization: a critic says what to expect. Give `critic` for its learning rate. arXiv 1707.06347. */
export const ppo = recipe({ advantage: "gae", critic: {} });

/** GRPO without its two divisions; set `lossScaleFactor` to the longest response. arXiv 2503.20783. */
export const drGrpo = recipe({ normalizeByStd: false, lossAggregation: "seq-mean-token-sum-norm" });

/** A higher upper clip, and groups without a signal are replaced. arXiv 2503.14476. */
export const dapo = recipe({ clipHigh: 0.28, dynamicSampling: {} });

/** One ratio a sequence. arXiv 2507.18071. */
export const gspo = recipe({
  loss: "gspo",
  clipLow: 3e-4,
  clipHigh: 4e-4,
  lossAggregation: "seq-mean-token-mean",
});

/** Every token keeps its gradient. arXiv 2506.13585. */
export const cispo = recipe({ loss: "cispo", clipLow: 1, clipHigh: 4 });

/** A soft gate on the ratio. arXiv 2511.20347. */
export const sapo = recipe({ loss: "sapo", lossAggregation: "seq-mean-token-mean" });

/** Each member beside the mean of the others. arXiv 2402.14740. */
export const rloo = recipe({ advantage: "rloo" });

/** The reward itself. Williams 1992. */
export const reinforce = recipe({ advantage: "reinforce", loss: "reinforce" });

/** Returns, whitened over the batch. arXiv 2501.03262. */
export const reinforcePlusPlus = recipe({ advantage: "reinforce++" });

/** Rewards beside their group's mean, whitened over the batch. arXiv 2501.03262. */
export const reinforcePlusPlusBaseline = recipe({ advantage: "reinforce++-baseline" });

/** A baseline weighted by lengths. arXiv 2505.23585. */
export const opo = recipe({ advantage: "opo" });

/** The reward beside that of a greedy episode of the same task. arXiv 2310.10505. */
export const remax = recipe({ advantage: "remax" });

/**
 * On-policy distillation: the teacher `kl.model` says of each token that the policy sampled how likely it is to the
 * teacher; rewards teach nothing. Give another `advantage` to learn from them, too. Lu and Thinking Machines Lab 2025.
 */
export const distill: Recipe = (settings) =>
  policyGradient({ advantage: "none", ...settings, kl: { ...TEACHER, ...settings.kl } });

const TEACHER = { appliedTo: "advantage", estimator: "k1", coefficient: 1 } as const;

/** Rejection-sampled fine-tuning: the log-likelihood of what earned more than `rewardThreshold`. arXiv 2304.06767. */
export const raft = recipe({ advantage: "raft", loss: "reinforce", lossDenominator: "signal" });

function recipe(own: Partial<PolicyGradientSettings>): Recipe {
  return (settings) => policyGradient({ ...own, ...settings });
}
