import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Trajectory,
} from "@whetstone/sdk";

/** Puts each question to the model, keeps the conversation, and answers with the model's text as it is. */
export class TypingAgent extends BaseAgent {
  #messages: ChatMessage[] = [];
  #trajectory = createTrajectory();

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

  updateFromEnv(observation: unknown): void {
    this.#messages = [...this.#messages, { role: "user", content: String(observation) }];
  }

  updateFromModel(response: string): Action {
    const observation = this.#messages.at(-1)?.content;
    this.#messages = [...this.#messages, { role: "assistant", content: response }];
    const chatCompletions = this.#messages;
    this.#trajectory.steps.push(
      createStep({ observation, chatCompletions, modelResponse: response, action: response }),
    );
    return { action: response };
  }
}
