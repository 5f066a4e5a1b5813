// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  BaseEnv,
  type ChatMessage,
  type ChatOptions,
  createStep,
  createTrajectory,
  type Environment,
  type ModelAnswer,
  type ResetResult,
  type RolloutClient,
  type StepResult,
} from "../src/index.ts";

/** Answers "a0", "a1", …, two tokens each. */
export class ScriptedClient implements RolloutClient {
  readonly asked: { messages: readonly ChatMessage[]; options: ChatOptions }[] = [];
  finished = 0;
  abandoned = 0;
  readonly #answer: (call: number) => Partial<ModelAnswer> | Promise<Partial<ModelAnswer>>;

  constructor(answer: (call: number) => Partial<ModelAnswer> | Promise<Partial<ModelAnswer>> = () => ({})) {
    this.#answer = answer;
  }

  async chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ModelAnswer> {
    const call = this.asked.length;
    this.asked.push({ messages: [...messages], options });
    const usage = { promptTokens: 10 * messages.length, completionTokens: 2 };
    return { text: `a${call}`, finishReason: "stop", callId: `c${call}`, usage, ...(await this.#answer(call)) };
  }

  finish(): void {
    this.finished += 1;
  }

  abandon(): void {
    this.abandoned += 1;
  }
}

/** Keeps its history; the action is the answer itself. */
export class EchoAgent extends BaseAgent {
  readonly messages: ChatMessage[] = [];
  #trajectory = createTrajectory();
  #observation: unknown;

  get chatCompletions(): readonly ChatMessage[] {
    return this.messages;
  }

  get trajectory() {
    return this.#trajectory;
  }

  reset(): void {
    this.#trajectory = createTrajectory();
  }

  updateFromEnv(observation: unknown): void {
    this.#observation = observation;
    this.messages.push({ role: "user", content: String(observation) });
  }

  updateFromModel(response: string): Action {
    this.messages.push({ role: "assistant", content: response });
    const step = { observation: this.#observation, modelResponse: response, action: response };
    this.#trajectory.steps.push(createStep(step));
    return { action: response };
  }
}

/** Counts up; ends after `length` steps; pays 1 a step. */
export class CountingEnv extends BaseEnv implements Environment {
  steps = 0;
  resets = 0;
  closed = 0;
  readonly #length: number;

  constructor(length = 3) {
    super();
    this.#length = length;
  }

  override reset(): ResetResult | Promise<ResetResult> {
    this.resets += 1;
    return { observation: "o0", info: {} };
  }

  override step(_action: unknown): StepResult | Promise<StepResult> {
    this.steps += 1;
    const terminated = this.steps >= this.#length;
    return { observation: `o${this.steps}`, reward: 1, terminated, truncated: false, info: {} };
  }

  override close(): void | Promise<void> {
    this.closed += 1;
  }
}

export function hang(): Promise<never> {
  return new Promise(() => undefined);
}
