// SPDX-License-Identifier: Apache-2.0
// Reads a question and what tools answered as a few lines; two characters say which tool to call with which name, or the answer. See README.md.
import { type Action, BaseAgent, type ChatMessage, createStep, createTrajectory } from "@whetstone/sdk";
import { Notes, ROOT } from "./notes.ts";

/** How a model calls the tools of the filesystem server. */
export const TOOLS: Readonly<Record<string, string>> = { l: "list_directory", r: "read_text_file", s: "search_files" };
export const ANSWER = "=";

interface Seen {
  readonly question?: string;
  readonly toolOutputs?: readonly { readonly output: string; readonly isError: boolean }[];
}

export class Clerk extends BaseAgent {
  readonly chatCompletions: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  #notes = new Notes("");
  #asked = { tool: "", name: "" };
  reset(): void {} // An instance plays one try only.

  /** The notes hold all that was read, so each turn is one message. */
  updateFromEnv({ question, toolOutputs = [] }: Seen): void {
    if (question !== undefined) this.#notes = new Notes(question);
    for (const { output, isError } of toolOutputs) this.#notes.add(this.#asked.tool, this.#asked.name, output, isError);
    this.chatCompletions.splice(0, Infinity, { role: "user", content: this.#notes.text });
  }

  updateFromModel(response: string): Action {
    const action = this.#actionOf(response.trim());
    this.trajectory.steps.push(
      createStep({ chatCompletions: [...this.chatCompletions], modelResponse: response, action }),
    );
    return { action };
  }

  /** What is no call is an answer, as of any agent. */
  #actionOf(said: string): unknown {
    const [tool = "", letter = ""] = said;
    const name = said.length === 2 ? this.#notes.nameOf(letter) : undefined;
    if (tool === ANSWER && name !== undefined) return name;
    const called = TOOLS[tool];
    if (called === undefined || name === undefined) return said;
    this.#asked = { tool, name };
    const args = tool === "s" ? { path: ROOT, pattern: `**/${name}` } : { path: this.#notes.pathOf(name) };
    return [{ id: "call", name: called, argumentsJson: JSON.stringify(args) }];
  }
}
