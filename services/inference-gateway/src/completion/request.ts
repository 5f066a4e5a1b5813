// SPDX-License-Identifier: Apache-2.0
import type { TemplateMessage } from "./message.ts";

/** How tokens are drawn. null: the field was not given. */
export interface SamplingAsked {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly topK: number | null;
  readonly maxTokens: number | null;
  readonly seed: number | null;
}

/** Further variables of a chat template, such as `enable_thinking`. */
export type TemplateVariables = Readonly<Record<string, string | number | boolean | null>>;

/** A completion as asked for, whatever the dialect. */
export interface CompletionRequest {
  readonly model: string;
  readonly messages: TemplateMessage[];
  readonly tools: unknown[] | null;
  /** The client's own variables for the chat template. */
  readonly variables: TemplateVariables | null;
  readonly sampling: SamplingAsked;
  readonly stream: boolean;
  /** Alternatives to report for each token; null: no log-probabilities in the answer. */
  readonly logprobs: number | null;
}
