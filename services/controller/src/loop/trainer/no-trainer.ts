// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Trainer } from "../ports.ts";

const refuse = (): Promise<never> =>
  Promise.reject(new WhetstoneError("INTERNAL", "a job that trains nothing asked for a trainer"));

/** Of a job that only evaluates, or only has its books closed: it holds up nobody's trainer. */
export const NO_TRAINER: Trainer = {
  configure: refuse,
  trainStep: refuse,
  evaluate: refuse,
  repairWeights: refuse,
  takeWaitedMs: () => 0,
};
