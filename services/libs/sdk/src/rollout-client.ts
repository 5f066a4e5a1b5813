// SPDX-License-Identifier: Apache-2.0
import type { Awaitable } from "./base-env.ts";
import type { ChatMessage, Step } from "./types.ts";

/** How tokens are drawn. Absent fields: the model server's default. */
export interface SamplingParams {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  /** 0: off. */
  readonly topK?: number | undefined;
  /** Most tokens of one call. Absent: what the budgets leave. */
  readonly maxTokens?: number | undefined;
}

export interface ChatOptions {
  readonly sampling: SamplingParams;
  /** Most tokens of the answer, at least 1. */
  readonly maxTokens: number;
  /** Prompts longer than this are refused with PromptTooLongError where the server can tell. */
  readonly maxPromptTokens?: number | undefined;
  readonly seed: number;
  /** The agent's role that asks. */
  readonly role: string;
  readonly signal: AbortSignal;
  /** Milliseconds until the episode's deadline, told to the server. */
  readonly remainingMs: number;
}

/** Exact counts from the server; nothing is tokenised again here. */
export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export interface ModelAnswer {
  readonly text: string;
  /** "stop", "length", "tool_calls" or "abort". */
  readonly finishReason: string;
  readonly usage: Usage;
  /** The server's name of this call. Empty: none. */
  readonly callId: string;
}

/** The model, as one try of one episode sees it. */
export interface RolloutClient {
  chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer>;
  /** After the last call of a try that succeeded, inside the deadline. Throwing fails the try. */
  finish?(steps: readonly Step[], signal: AbortSignal): Awaitable<void>;
  /** After a try that failed; must not throw. Calls that are still running are aborted already. */
  abandon?(): void;
}
