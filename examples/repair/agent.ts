// SPDX-License-Identifier: Apache-2.0
// A function with one wrong operator; the answer names a line and the operator that belongs there. See README.md.
import { type Action, BaseAgent, type ChatMessage, createStep, createTrajectory } from "@whetstone/sdk";

/** Longest first, so that "<=" is not read as "<". */
const KINDS = [
  ["<=", ">=", "==", "!=", "<", ">"],
  ["+", "-", "*"],
] as const;

/** "4>=" puts >= where line 4 has its first comparison. @returns the lines as they were where the answer is no edit */
export function repaired(lines: readonly string[], answer: string): string[] {
  const [, number, operator] = /^(\d)(\S+)$/u.exec(answer.trim()) ?? [];
  const kind = KINDS.find((operators) => (operators as readonly string[]).includes(operator ?? ""));
  return lines.map((line, index) => {
    const old = index + 1 === Number(number) ? kind?.find((each) => line.includes(` ${each} `)) : undefined;
    return old === undefined ? line : line.replace(` ${old} `, ` ${operator} `);
  });
}

export class Repairer extends BaseAgent {
  readonly chatCompletions: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  #lines: string[] = [];
  reset(): void {} // An instance plays one try only.

  updateFromEnv({ question }: { readonly question?: string }): void {
    if (question === undefined) return;
    this.chatCompletions.push({ role: "user", content: question });
    this.#lines = question.split("\n").map((line) => line.slice(1));
  }

  updateFromModel(response: string): Action {
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: response }));
    return { action: ["```python", ...repaired(this.#lines, response), "```"].join("\n") };
  }
}
