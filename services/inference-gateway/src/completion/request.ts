// SPDX-License-Identifier: Apache-2.0
import type { TemplateMessage } from "./message.ts";

/** How tokens are drawn; what was not given is undefined. */
export interface SamplingAsked {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly seed?: number | undefined;
}

/**
 * Most tokens that truncated sampling keeps where nobody says how many. What it kept travels with every token, so that the
 * trainer takes probabilities over the same ones: that has to be bounded.
 */
export const MAX_SUPPORT = 512;

/** With a `topK` where `topP` or `minP` truncates without one; vLLM, too, tells what it kept only then. */
export function withBoundedSupport(sampling: SamplingAsked): SamplingAsked {
  const { topP = 1, topK = 0, minP = 0 } = sampling;
  return (topP < 1 || minP > 0) && topK === 0 ? { ...sampling, topK: MAX_SUPPORT } : sampling;
}

/** The tools that a chat template prints. */
export type Tools = readonly unknown[] | undefined;

/** Further variables of a chat template, such as `enable_thinking`. */
export type TemplateVariables = Readonly<Record<string, string | number | boolean | null>>;

/** A completion as asked for, whatever the dialect. */
export interface CompletionRequest {
  readonly model: string;
  readonly messages: TemplateMessage[];
  readonly tools?: Tools;
  /** The client's own variables for the chat template. */
  readonly variables?: TemplateVariables | undefined;
  readonly sampling: SamplingAsked;
  readonly stream: boolean;
  /** Alternatives to report for each token; undefined: no log-probabilities in the answer. */
  readonly logprobs?: number | undefined;
}
