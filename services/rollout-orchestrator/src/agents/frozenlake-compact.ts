// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Trajectory,
} from "@whetstone/sdk";
import { parseLetter } from "./parse-action.ts";

/** Keeps no history: each turn the model sees the board alone and answers with one letter. */
export class CompactFrozenLakeAgent extends BaseAgent {
  #trajectory = createTrajectory();
  #observation = "";

  get chatCompletions(): readonly ChatMessage[] {
    return [{ role: "user", content: this.#observation }];
  }

  get trajectory(): Trajectory {
    return this.#trajectory;
  }

  reset(): void {
    this.#trajectory = createTrajectory();
  }

  updateFromEnv(observation: unknown): void {
    this.#observation = String(observation);
  }

  updateFromModel(response: string): Action {
    const action = parseLetter(response);
    this.#trajectory.steps.push(createStep({ observation: this.#observation, modelResponse: response, action }));
    return { action };
  }
}
