// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Trajectory,
} from "@whetstone/sdk";
import { parseFenced } from "./parse-action.ts";

/** rLLM's prompt for the game. */
export const SYSTEM_PROMPT = `You are Qwen, created by Alibaba Cloud. You are a helpful assistant. You are walking on a frozen lake.

FrozenLake Quick Guide
Goal: Reach the goal (G). Player (P) and Goal (G) must overlap.

Symbols:
_ Frozen | O Hole | G Goal | P Player

Rules:
1. Avoid falling into holes (O).
2. Frozen tiles may be slippery: you may move perpendicular to the direction you meant.

Valid Actions (separated by |):
Up | Down | Left | Right

Rewards:
Fall into hole: 0
Reach goal: +1.0

You will be given the current observation. Decide on the next action, think about it step by step, and put it in triple backticks, for example:
\`\`\`Up\`\`\``;

/** Keeps the whole conversation. */
export class FrozenLakeAgent extends BaseAgent {
  #messages: ChatMessage[] = [];
  #trajectory = createTrajectory();
  #observation = "";

  get chatCompletions(): readonly ChatMessage[] {
    return this.#messages;
  }

  get trajectory(): Trajectory {
    return this.#trajectory;
  }

  reset(): void {
    this.#messages = [{ role: "system", content: SYSTEM_PROMPT }];
    this.#trajectory = createTrajectory();
  }

  updateFromEnv(observation: unknown): void {
    this.#observation = String(observation);
    this.#messages.push({ role: "user", content: this.#observation });
  }

  updateFromModel(response: string): Action {
    this.#messages.push({ role: "assistant", content: response });
    const action = parseFenced(response);
    const step = { observation: this.#observation, modelResponse: response, action };
    this.#trajectory.steps.push(createStep({ ...step, chatCompletions: [...this.#messages] }));
    return { action };
  }
}
