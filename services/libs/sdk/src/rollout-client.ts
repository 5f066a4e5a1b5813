// SPDX-License-Identifier: Apache-2.0
import type { Awaitable } from "./base-env.ts";
import type { ChatMessage, Info, Step, ToolCall } from "./types.ts";

/** How tokens are drawn. Absent fields: the model server's default. */
export interface SamplingParams {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  /** 0: off. */
  readonly topK?: number | undefined;
  /** 0: off. */
  readonly minP?: number | undefined;
  /** Most tokens of one call. Absent: what the budgets leave. */
  readonly maxTokens?: number | undefined;
}

/** A tool that the model may call, in the shape of the OpenAI chat API. */
export interface ToolSpec {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    /** JSON Schema of the arguments. */
    readonly parameters?: Info;
  };
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
  /** Another model of the same server. Absent: the client's. */
  readonly model?: string | undefined;
  readonly tools?: readonly ToolSpec[] | undefined;
  /** The answer's token ids and log-probabilities are wanted; servers that know no ids leave them out. */
  readonly returnTokenIds?: boolean | undefined;
  /** Variables for the server's chat template: `{ enable_thinking: false }`. */
  readonly chatTemplateKwargs?: Info | undefined;
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
  /** The thinking, where the server takes it out of the text. */
  readonly reasoning?: string | undefined;
  /** Where the server parses them; in the order of the text. */
  readonly toolCalls?: readonly ToolCall[] | undefined;
  /** What the model saw, whole. Only with `returnTokenIds`, and where the server knows them. */
  readonly promptIds?: readonly number[] | undefined;
  /** What was sampled, end-of-turn token included. As `promptIds`. */
  readonly completionIds?: readonly number[] | undefined;
  /** Natural logarithms at sampling, one for each of `completionIds`. As `promptIds`. */
  readonly logprobs?: readonly number[] | undefined;
}

/** A model server, for code that brings its own client. */
export interface ModelEndpoint {
  /** As OpenAI clients take it: "/v1" included. */
  readonly baseUrl: string;
  /** The same for a program on another machine. Absent: `baseUrl`. */
  readonly publicBaseUrl?: string | undefined;
  /** Any text where the server asks for none. */
  readonly apiKey: string;
  readonly model: string;
}

/** The model, as one try of one episode sees it. */
export interface RolloutClient {
  /** Where `chat` goes to. Absent: nowhere that another client could go to. */
  readonly endpoint?: ModelEndpoint | undefined;
  /** As `endpoint`, with a key that is good for this try alone. Absent: `endpoint` is all there is. */
  openEndpoint?(signal: AbortSignal): Promise<ModelEndpoint>;
  chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer>;
  /** After the last call of a try that succeeded, inside the deadline. Throwing fails the try. */
  finish?(steps: readonly Step[], signal: AbortSignal): Awaitable<void>;
  /** After a try that failed; must not throw. Calls that are still running are aborted already. */
  abandon?(): void;
}
