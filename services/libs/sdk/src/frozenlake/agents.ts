// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { z } from "zod";
import { BaseAgent } from "../base-agent.ts";
import { defineAgent } from "../define.ts";
import { type Action, type ChatMessage, createStep, createTrajectory, type Trajectory } from "../types.ts";
import { parseFenced, parseLetter } from "./parse-action.ts";

/** rLLM's prompt for the game. */
const SYSTEM_PROMPT = `You are Qwen, created by Alibaba Cloud. You are a helpful assistant. You are walking on a frozen lake.

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
class StandardAgent extends BaseAgent {
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

/** Keeps no history: each turn the model sees the board alone and answers with one letter. */
export class CompactAgent extends BaseAgent {
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

const FrozenLakeAgentArgs = z.strictObject({
  variant: z
    .enum(["standard", "compact"])
    .default("standard")
    .describe("standard: rLLM's conversation; compact: one board in, one letter out, no history"),
});

export const frozenLakeAgent = defineAgent<z.output<typeof FrozenLakeAgentArgs>>({
  kind: "frozenlake",
  description: "Walks over a frozen lake; the observation style of the environment must be the same as its variant.",
  parseArgs: (args) => parseOrThrow(FrozenLakeAgentArgs, args, ""),
  argsSchema: z.toJSONSchema(FrozenLakeAgentArgs, { io: "input" }),
  create: ({ variant }) => (variant === "compact" ? new CompactAgent() : new StandardAgent()),
});
