// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Info,
  type ModelAnswer,
  splitThinking,
  type ToolSpec,
  type Trajectory,
} from "@whetstone/sdk";
import { ToolAgent } from "@whetstone/tools";

export interface SearchAgentOptions {
  /** With tool calls: stands before the tool's description. */
  readonly systemPrompt?: string | undefined;
  /** With tags: the first message; {question} is the task's. */
  readonly questionTemplate?: string | undefined;
}

export const SEARCH_SYSTEM_PROMPT =
  "Answer the question. Facts that you do not know are in a collection of documents, which you can search: " +
  "call the tool as often as you need, one fact at a time. Then give the answer alone, as <answer> … </answer>.";

/** Search-R1's own words. */
export const SEARCH_QUESTION_TEMPLATE =
  "Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get new information. " +
  "After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> and it will " +
  "return the top searched results between <information> and </information>. You can search as many times as your want. " +
  "If you find no further external knowledge needed, you can directly provide the answer inside <answer> and </answer>, " +
  "without detailed illustrations. For example, <answer> Beijing </answer>. Question: {question}";

/** Searches until it answers; for the environment `search`, in whichever grammar that has: tool calls, or Search-R1's tags. */
export class SearchAgent extends BaseAgent {
  readonly #options: SearchAgentOptions;
  #conversation: ToolAgent | TagConversation;

  constructor(options: SearchAgentOptions = {}) {
    super();
    this.#options = options;
    this.#conversation = new TagConversation(options);
  }

  get chatCompletions(): readonly ChatMessage[] {
    return this.#conversation.chatCompletions;
  }

  get trajectory(): Trajectory {
    return this.#conversation.trajectory;
  }

  reset(): void {
    this.#conversation = new TagConversation(this.#options);
  }

  updateFromEnv(observation: unknown, reward: number, done: boolean, info: Info): void {
    const isFirst = this.#conversation.chatCompletions.length === 0;
    if (isFirst && Array.isArray(info["tools"])) {
      const { systemPrompt = SEARCH_SYSTEM_PROMPT } = this.#options;
      this.#conversation = new ToolAgent({ systemPrompt, tools: info["tools"] as ToolSpec[] });
    }
    this.#conversation.updateFromEnv(observation, reward, done, info);
  }

  updateFromModel(response: string, answer: Partial<ModelAnswer>): Action {
    return this.#conversation.updateFromModel(response, answer);
  }
}

/** The model's turns as they are; what was found comes back as the user's. */
class TagConversation extends BaseAgent {
  readonly #template: string;
  readonly #messages: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  #observation: unknown;

  constructor({ questionTemplate = SEARCH_QUESTION_TEMPLATE }: SearchAgentOptions) {
    super();
    this.#template = questionTemplate;
  }

  get chatCompletions(): readonly ChatMessage[] {
    return this.#messages;
  }

  reset(): void {
    this.#messages.length = 0;
  }

  updateFromEnv(observation: unknown, _reward: number, done: boolean): void {
    this.#observation = observation;
    if (done) return;
    const text = String(observation);
    const isFirst = this.#messages.length === 0;
    this.#messages.push({ role: "user", content: isFirst ? this.#template.replace("{question}", () => text) : text });
  }

  updateFromModel(response: string, { reasoning }: Partial<ModelAnswer>): Action {
    this.#messages.push({ role: "assistant", content: response, ...(reasoning === undefined ? {} : { reasoning }) });
    // A server that takes the thought out of the text took its tags, too.
    const action = reasoning === undefined ? response : `<think>${reasoning}</think>${response}`;
    const thought = reasoning ?? splitThinking(response).thought;
    const seen = { observation: this.#observation, modelResponse: response, thought };
    this.trajectory.steps.push(createStep({ ...seen, action, chatCompletions: [...this.#messages] }));
    return { action };
  }
}
