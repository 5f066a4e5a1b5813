// SPDX-License-Identifier: Apache-2.0
import { type Action, BaseAgent, type ChatMessage, createStep, createTrajectory } from "../src/index.ts";

const MOVES: Readonly<Record<string, string>> = { U: "Up", D: "Down", L: "Left", R: "Right" };

/** The compact player: one board in, one letter out, no history. */
export class LakeAgent extends BaseAgent {
  #trajectory = createTrajectory();
  #observation = "";

  get chatCompletions(): readonly ChatMessage[] {
    return [{ role: "user", content: this.#observation }];
  }

  get trajectory() {
    return this.#trajectory;
  }

  reset(): void {
    this.#trajectory = createTrajectory();
  }

  updateFromEnv(observation: unknown): void {
    this.#observation = String(observation);
  }

  updateFromModel(response: string): Action {
    const action = MOVES[response] ?? "";
    this.#trajectory.steps.push(createStep({ observation: this.#observation, modelResponse: response, action }));
    return { action };
  }
}
