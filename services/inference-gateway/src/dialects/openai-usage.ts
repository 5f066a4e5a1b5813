// SPDX-License-Identifier: Apache-2.0
import type { Completion } from "../completion/complete.ts";

/** Several answers share one prompt, which counts once. */
export function usageOf(answers: readonly Completion[]): object {
  const prompt = answers[0]?.promptIds.length ?? 0;
  const completion = answers.reduce((sum, { generation }) => sum + generation.ids.length, 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: answers[0]?.generation.cachedTokens ?? 0 },
  };
}
