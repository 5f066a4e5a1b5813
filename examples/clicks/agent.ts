// SPDX-License-Identifier: Apache-2.0
// Reads a page as a few lines and answers with the letter of an element, which is clicked. See README.md.
import { type Action, BaseAgent, type ChatMessage, createStep, createTrajectory } from "@whetstone/sdk";
import { type Clickable, clickablesOf, LETTERS, pageText } from "./page.ts";

interface Seen {
  readonly goal?: string;
  readonly axtree?: string;
}

export class Clicker extends BaseAgent {
  readonly chatCompletions: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  #elements: readonly Clickable[] = [];
  reset(): void {} // An instance plays one try only.

  /** Each page stands for itself: only the newest is shown. */
  updateFromEnv({ goal, axtree }: Seen): void {
    if (goal === undefined || axtree === undefined) return;
    this.#elements = clickablesOf(axtree);
    this.chatCompletions.splice(0, Infinity, { role: "user", content: pageText(goal, this.#elements) });
  }

  updateFromModel(response: string): Action {
    const letter = response.trim();
    const bid = letter.length === 1 ? this.#elements[LETTERS.indexOf(letter)]?.bid : undefined;
    const action = bid === undefined ? "noop()" : `click('${bid}')`;
    this.trajectory.steps.push(
      createStep({ chatCompletions: [...this.chatCompletions], modelResponse: response, action }),
    );
    return { action };
  }
}
