// SPDX-License-Identifier: Apache-2.0
// Reads a question and what was found as a few lines, and answers with one letter: what to search for, or the answer. See README.md.
import { type Action, BaseAgent, type ChatMessage, createStep, createTrajectory } from "@whetstone/sdk";
import { LETTERS, notesOf } from "./notes.ts";

export class Seeker extends BaseAgent {
  readonly chatCompletions: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  readonly #read: string[] = [];
  #names: readonly string[] = [];
  reset(): void {} // An instance plays one try only.

  /** The notes hold all that was read, so each turn is one message. */
  updateFromEnv(observation: unknown): void {
    if (typeof observation !== "string") return;
    this.#read.push(observation);
    const { text, names } = notesOf(this.#read);
    this.#names = names;
    this.chatCompletions.splice(0, Infinity, { role: "user", content: text });
  }

  updateFromModel(response: string): Action {
    const action = this.#actionOf(response.trim());
    this.trajectory.steps.push(
      createStep({ chatCompletions: [...this.chatCompletions], modelResponse: response, action }),
    );
    return { action };
  }

  /** In Search-R1's tags. What is no letter of a name stays as it is: the environment says what it wants. */
  #actionOf(letter: string): string {
    const name = letter.length === 1 ? this.#names[LETTERS.indexOf(letter.toLowerCase())] : undefined;
    if (name === undefined) return letter;
    const tag = letter === letter.toLowerCase() ? "search" : "answer";
    return `<think></think><${tag}>${name}</${tag}>`;
  }
}
