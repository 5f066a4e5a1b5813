// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Info,
  type ModelAnswer,
  type SeenImage,
  type ToolSpec,
  type Trajectory,
} from "@whetstone/sdk";
import type { ToolOutputs } from "./tool-environment.ts";
import { type ParsedAnswer, parseAnswer, renderTools } from "./tool-calls.ts";

export interface ToolAgentOptions {
  /** Default: `TOOL_SYSTEM_PROMPT`. "" with `describeTools: false`: no system message. */
  readonly systemPrompt?: string | undefined;
  /** What may be called. Default: what the environment offers at reset (`info.tools`). */
  readonly tools?: readonly ToolSpec[] | undefined;
  /**
   * How the model learns of the tools: true (default), in the system prompt; "server", by the request, so that the model
   * server's own template and parser are used; false, not at all: it may know them from training.
   */
  readonly describeTools?: boolean | "server" | undefined;
  /** The model is shown the pictures beside outputs, in a message of their own after them. Default: false. */
  readonly images?: boolean | undefined;
}

/** rLLM's words. */
export const TOOL_SYSTEM_PROMPT =
  "You are a tool agent. You are given a task to complete. You have a set of tools at your disposal. " +
  "Before you use the tools, outputting your thoughts before calling the tools.";

/**
 * Calls tools until it answers. The action is the list of calls (for `ToolEnvironment`), or the answer's text where there
 * are none. Calls are read from the text (Hermes and Qwen's `<tool_call>`), unless the server has parsed them already.
 */
export class ToolAgent extends BaseAgent {
  readonly #options: ToolAgentOptions;
  #messages: ChatMessage[] = [];
  #trajectory = createTrajectory();
  #observation: unknown;
  #offered: readonly ToolSpec[] = [];
  #images: readonly SeenImage[] = [];

  constructor(options: ToolAgentOptions = {}) {
    super();
    this.#options = options;
  }

  get chatCompletions(): readonly ChatMessage[] {
    return this.#messages;
  }

  get trajectory(): Trajectory {
    return this.#trajectory;
  }

  reset(): void {
    this.#messages = [];
    this.#trajectory = createTrajectory();
  }

  override lookAt(images: readonly SeenImage[]): void {
    this.#images = this.#options.images === true ? images : [];
  }

  updateFromEnv(observation: unknown, _reward: number, done: boolean, info: Info): void {
    this.#observation = observation;
    if (done) return;
    if (this.#messages.length === 0) this.#introduce(info);
    const outputs = (observation as Partial<ToolOutputs> | null)?.toolOutputs;
    const images = this.#images.length === 0 ? {} : { images: this.#images };
    if (outputs === undefined) return void this.#messages.push({ role: "user", content: said(observation), ...images });
    for (const { toolCallId, output } of outputs) this.#messages.push({ role: "tool", content: output, toolCallId });
    // The chat API takes pictures of users only.
    if (this.#images.length > 0) this.#messages.push({ role: "user", content: IMAGES_FOLLOW, ...images });
  }

  updateFromModel(response: string, answer: Partial<ModelAnswer>): Action {
    const parsed = parseAnswer(response, answer, this.#trajectory.steps.length);
    this.#messages.push(echoOf(response, answer));
    const action = parsed.calls.length > 0 ? parsed.calls : parsed.text;
    this.#trajectory.steps.push(createStep({ ...this.#seen(response, parsed), action }));
    return { action };
  }

  override tools(): readonly ToolSpec[] {
    return this.#options.describeTools === "server" ? this.#offered : [];
  }

  #seen(modelResponse: string, { thought }: ParsedAnswer) {
    return { observation: this.#observation, modelResponse, thought, chatCompletions: [...this.#messages] };
  }

  #introduce({ tools }: Info): void {
    const { systemPrompt = TOOL_SYSTEM_PROMPT, describeTools = true } = this.#options;
    this.#offered = this.#options.tools ?? (Array.isArray(tools) ? (tools as ToolSpec[]) : []);
    const parts = [systemPrompt, describeTools === true ? renderTools(this.#offered) : ""];
    const content = parts.filter((part) => part !== "").join("\n\n");
    if (content !== "") this.#messages.push({ role: "system", content });
  }
}

const IMAGES_FOLLOW = "The pictures of the outputs above, in their order:";

/** The answer as it was: the gateway continues its exact ids only if it comes back unchanged. */
function echoOf(content: string, { toolCalls, reasoning }: Partial<ModelAnswer>): ChatMessage {
  return {
    role: "assistant",
    content,
    ...(toolCalls === undefined || toolCalls.length === 0 ? {} : { toolCalls }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
}

function said(observation: unknown): string {
  if (typeof observation === "string") return observation;
  const { question } = (observation ?? {}) as { question?: unknown };
  return typeof question === "string" ? question : JSON.stringify(observation);
}
