// SPDX-License-Identifier: Apache-2.0
import {
  type AlgorithmSettings,
  cispo,
  dapo,
  drGrpo,
  grpo,
  gspo,
  opo,
  ppo,
  reinforce,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  remax,
  rloo,
  sapo,
} from "@whetstone/sdk";
import { CLIPPED, POLICY_GRADIENT } from "./recipe.ts";

/**
 * For CISPO, whose loss holds no token that went too far, ReMax, whose baseline is one episode, REINFORCE++, which has none, and
 * PPO, whose critic begins with nothing: without it runs of each lost the form of an answer, or half of what they had learned.
 */
const NEAR_START = { kl: { coefficient: 0.1 } } as const;

/** Every algorithm, by its name on the command line. */
export const ALGORITHMS: Readonly<Record<string, AlgorithmSettings>> = {
  grpo: grpo(CLIPPED),
  dapo: dapo(CLIPPED),
  // The critic has to learn from nothing what the policy was taught the form of.
  ppo: ppo({ ...CLIPPED, ...NEAR_START, critic: { optimizer: { learningRate: 0.001, beta2: 0.95 }, warmupSteps: 2 } }),
  "dr-grpo": drGrpo({ ...CLIPPED, lossScaleFactor: 8 }),
  // The mean ratio of an answer moves less than that of a token, so its bounds are closer.
  gspo: gspo({ ...POLICY_GRADIENT, clipLow: 0.05, clipHigh: 0.07 }),
  cispo: cispo({ ...CLIPPED, ...NEAR_START }),
  sapo: sapo(POLICY_GRADIENT),
  rloo: rloo(CLIPPED),
  reinforce: reinforce(POLICY_GRADIENT),
  "reinforce++": reinforcePlusPlus({ ...CLIPPED, ...NEAR_START }),
  "reinforce++-baseline": reinforcePlusPlusBaseline(CLIPPED),
  opo: opo(CLIPPED),
  remax: remax({ ...CLIPPED, ...NEAR_START }),
};
