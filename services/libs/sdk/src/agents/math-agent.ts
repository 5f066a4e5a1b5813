// SPDX-License-Identifier: Apache-2.0
import { BaseAgent } from "../base-agent.ts";
import type { ModelAnswer } from "../rollout-client.ts";
import { type Action, type ChatMessage, createStep, createTrajectory, type Trajectory } from "../types.ts";
import { splitThinking, withoutThinking } from "./thinking.ts";

export interface MathAgentOptions {
  /** Thinking of earlier answers stays in later prompts; without it each turn starts a new training row. Default true. */
  readonly accumulateThinking?: boolean | undefined;
  /** Default: none. */
  readonly systemPrompt?: string | undefined;
  /** Follows the question. Default: `BOXED_INSTRUCTION`. */
  readonly instruction?: string | undefined;
}

/** DeepSeek's words for mathematics. */
export const BOXED_INSTRUCTION = "Let's think step by step and output the final answer within \\boxed{}.";

/** Asks a question, and again after feedback; the action is the answer's text after its thinking. */
export class MathAgent extends BaseAgent {
  readonly #options: MathAgentOptions;
  #messages: ChatMessage[] = [];
  #trajectory = createTrajectory();
  #observation: unknown;

  constructor(options: MathAgentOptions = {}) {
    super();
    this.#options = options;
  }

  get chatCompletions(): readonly ChatMessage[] {
    return (this.#options.accumulateThinking ?? true) ? this.#messages : this.#messages.map(plainAnswer);
  }

  get trajectory(): Trajectory {
    return this.#trajectory;
  }

  reset(): void {
    const { systemPrompt = "" } = this.#options;
    this.#messages = systemPrompt === "" ? [] : [{ role: "system", content: systemPrompt }];
    this.#trajectory = createTrajectory();
  }

  updateFromEnv(observation: unknown, _reward: number, done: boolean): void {
    this.#observation = observation;
    if (!done) this.#messages.push({ role: "user", content: this.#said(observation) });
  }

  updateFromModel(response: string, { reasoning }: Partial<ModelAnswer>): Action {
    const { thought, answer } = splitThinking(response);
    const echo = reasoning === undefined ? {} : { reasoning };
    this.#messages.push({ role: "assistant", content: response, ...echo });
    const step = {
      observation: this.#observation,
      modelResponse: response,
      thought: reasoning ?? thought,
      action: answer,
    };
    this.#trajectory.steps.push(createStep({ ...step, chatCompletions: [...this.#messages] }));
    return { action: answer };
  }

  #said(observation: unknown): string {
    const { question, feedback } = fieldsOf(observation);
    if (typeof feedback === "string") return feedback;
    if (typeof question !== "string")
      return typeof observation === "string" ? observation : JSON.stringify(observation);
    const { instruction = BOXED_INSTRUCTION } = this.#options;
    return instruction === "" ? question : `${question} ${instruction}`;
  }
}

function fieldsOf(observation: unknown): { readonly question?: unknown; readonly feedback?: unknown } {
  return typeof observation === "object" && observation !== null ? observation : {};
}

function plainAnswer(message: ChatMessage): ChatMessage {
  if (message.role !== "assistant") return message;
  return { role: "assistant", content: withoutThinking(message.content) };
}
