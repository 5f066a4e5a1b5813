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
import { POLICY_GRADIENT } from "./recipe.ts";

/** Bounds of the ratio that all losses which clip tokens share here. */
const CLIPPED = { ...POLICY_GRADIENT, clipHigh: 0.28 };

/** Every algorithm, by its name on the command line. */
export const ALGORITHMS: Readonly<Record<string, AlgorithmSettings>> = {
  grpo: grpo(CLIPPED),
  dapo: dapo(CLIPPED),
  // The critic has to learn from nothing what the policy was taught the form of.
  ppo: ppo({ ...CLIPPED, critic: { optimizer: { learningRate: 0.001, beta2: 0.95 }, warmupSteps: 2 } }),
  "dr-grpo": drGrpo({ ...CLIPPED, lossScaleFactor: 8 }),
  gspo: gspo({ ...POLICY_GRADIENT, clipLow: 0.2, clipHigh: 0.28 }),
  // Nothing stops a token that went too far. So steps are small, and every trajectory weighs the same: those that fail are
  // longer, and would push the tokens that all answers share down.
  cispo: cispo({ ...CLIPPED, learningRate: 0.0002, lossAggregation: "seq-mean-token-mean" }),
  sapo: sapo(POLICY_GRADIENT),
  rloo: rloo(CLIPPED),
  reinforce: reinforce(POLICY_GRADIENT),
  "reinforce++": reinforcePlusPlus(CLIPPED),
  "reinforce++-baseline": reinforcePlusPlusBaseline(CLIPPED),
  opo: opo(CLIPPED),
  remax: remax(CLIPPED),
};
