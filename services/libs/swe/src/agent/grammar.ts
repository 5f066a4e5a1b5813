// SPDX-License-Identifier: Apache-2.0
import type { ModelAnswer, ToolSpec } from "@whetstone/sdk";
import type { ParsedToolCall } from "@whetstone/tools";

/** What an answer asks for. Without calls, its text is the final answer. */
export interface ReadAnswer {
  readonly thought: string;
  readonly text: string;
  readonly calls: readonly ParsedToolCall[];
}

/** How a model is told of its tools, and how it writes a call. */
export interface Grammar {
  /** For the system prompt: what may be called, and how. */
  describe(tools: readonly ToolSpec[]): string;
  /** What could not be read comes back as a call with a `problem`: the environment answers it, and the model reads why. */
  read(response: string, answer: Partial<ModelAnswer>, turn: number, tools: readonly ToolSpec[]): ReadAnswer;
  /** Which message an output comes back in. */
  readonly outputRole: "tool" | "user";
}

/** A call that the model got wrong, with what it should have written. */
export function badCall(turn: number, problem: string): ParsedToolCall {
  return { id: `call_${turn}_0`, name: "", argumentsJson: "{}", problem };
}
