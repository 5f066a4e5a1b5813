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
 * For all but DAPO, which leaves it out by its definition and replaces groups that say nothing. Without it runs of GRPO, PPO, ReMax,
 * REINFORCE++ and CISPO lost the form of an answer, or half of what they had learned, within a step or two.
 */
const NEAR_START = { kl: { coefficient: 0.1 } } as const;
const CLIPPED_NEAR = { ...CLIPPED, ...NEAR_START } as const;
const GRADIENT_NEAR = { ...POLICY_GRADIENT, ...NEAR_START } as const;

/** Every algorithm, by its name on the command line. */
export const ALGORITHMS: Readonly<Record<string, AlgorithmSettings>> = {
  grpo: grpo(CLIPPED_NEAR),
  dapo: dapo(CLIPPED),
  // The critic has to learn from nothing what the policy was taught the form of.
  ppo: ppo({ ...CLIPPED_NEAR, critic: { optimizer: { learningRate: 0.001, beta2: 0.95 }, warmupSteps: 2 } }),
  "dr-grpo": drGrpo({ ...CLIPPED_NEAR, lossScaleFactor: 8 }),
  // The mean ratio of an answer moves less than that of a token, so its bounds are closer.
  gspo: gspo({ ...GRADIENT_NEAR, clipLow: 0.05, clipHigh: 0.07 }),
  cispo: cispo(CLIPPED_NEAR),
  sapo: sapo(GRADIENT_NEAR),
  rloo: rloo(CLIPPED_NEAR),
  reinforce: reinforce(GRADIENT_NEAR),
  "reinforce++": reinforcePlusPlus(CLIPPED_NEAR),
  "reinforce++-baseline": reinforcePlusPlusBaseline(CLIPPED_NEAR),
  opo: opo(CLIPPED_NEAR),
  remax: remax(CLIPPED_NEAR),
};
