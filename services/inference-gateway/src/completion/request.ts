// SPDX-License-Identifier: Apache-2.0
import type { LogitChanges } from "./logit-changes.ts";
import type { TemplateMessage } from "./message.ts";

/** How tokens are drawn; what was not given is undefined. */
export interface SamplingAsked {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly maxTokens?: number | undefined;
  readonly seed?: number | undefined;
  readonly logits?: LogitChanges | undefined;
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

/** JSON schemas of the tools' arguments, by name; undefined: there are no tools. */
export function schemasOf(tools: Tools): ReadonlyMap<string, unknown> | undefined {
  if (tools === undefined) return undefined;
  type Tool = { function?: { name?: unknown; parameters?: unknown } };
  const named = (tools as Tool[]).filter(({ function: f }) => typeof f?.name === "string");
  return new Map(named.map(({ function: f }) => [f?.name as string, f?.parameters]));
}

/** Whether the model may call tools, must call one, or a certain one. */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };

/** Further variables of a chat template, such as `enable_thinking`. */
export type TemplateVariables = Readonly<Record<string, string | number | boolean | null>>;

/** A text, or token ids. */
export type RawPrompt = string | readonly number[];

/** A completion as asked for, whatever the dialect. */
export interface CompletionRequest {
  readonly model: string;
  readonly messages: TemplateMessage[];
  /** Instead of messages: a prompt as it is. Its answer is text as it was sampled. */
  readonly prompt?: RawPrompt | undefined;
  readonly tools?: Tools;
  /** Absent: "auto". */
  readonly toolChoice?: ToolChoice | undefined;
  /** False: only the first call of an answer counts. Absent: true. */
  readonly parallelCalls?: boolean | undefined;
  /** The client's own variables for the chat template. */
  readonly variables?: TemplateVariables | undefined;
  readonly sampling: SamplingAsked;
  readonly stream: boolean;
  /** Strings that end the answer, and are not part of it. */
  readonly stops?: readonly string[] | undefined;
  /** How many answers. Absent: 1. */
  readonly n?: number | undefined;
  /** The client may refer to this answer by name. Absent: it never does. */
  readonly remember?:
    { readonly previous: string | undefined; readonly messages: readonly TemplateMessage[] } | undefined;
  /** Alternatives to report for each token; undefined: no log-probabilities in the answer. */
  readonly logprobs?: number | undefined;
}
