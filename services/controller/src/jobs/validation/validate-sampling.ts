// SPDX-License-Identifier: Apache-2.0
import type { Sampling } from "@whetstone/proto/types/v1/types";
import type { Findings } from "./violation.ts";

export function checkSampling(found: Findings, path: string, sampling: Sampling | undefined): void {
  const { temperature = 1 } = sampling ?? {};
  const isDrawn = temperature >= 0.01 && temperature <= 2;
  found.check(`${path}.temperature`, temperature === 0 || isDrawn, `must be 0 or from 0.01 to 2, got ${temperature}`);
  found.range(`${path}.topP`, sampling?.topP, 1e-6, 1);
  found.range(`${path}.topK`, sampling?.topK, 0, 1_000_000);
  found.range(`${path}.maxTokens`, sampling?.maxTokens, 1, 10_000_000);
}

/**
 * The trainer takes a token's probability over the whole vocabulary. What was sampled from a part of it has another one,
 * and a greedy token has probability 1 whatever the weights.
 */
export function checkTrainedSampling(found: Findings, sampling: Sampling | undefined): void {
  const { temperature, topP = 1, topK = 0 } = sampling ?? {};
  found.check("sampling.temperature", temperature !== 0, "must be above 0 to train on what was sampled");
  const why = "cannot be trained yet; only validation.variants[].sampling and evaluations may have it";
  found.check("sampling.topP", topP === 1, `must be 1 or absent: sampling from a part of the vocabulary ${why}`);
  found.check("sampling.topK", topK === 0, `must be 0 or absent: sampling from a part of the vocabulary ${why}`);
}
