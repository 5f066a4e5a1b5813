// SPDX-License-Identifier: Apache-2.0
// A model is asked for prices that only a tool knows: it has to call it, read the output, and answer.
import { mathReward } from "@whetstone/graders";
import { BaseAgent, type ChatMessage, createStep, createTrajectory, defineJob, grpo } from "@whetstone/sdk";
import { defineTool, parseAnswer, ToolEnvironment, type ToolOutputs } from "@whetstone/tools";

const PRICES: Readonly<Record<string, number>> = { tea: 3, bread: 2, milk: 1, rice: 4 };
const price = defineTool<{ readonly item: string }>({
  name: "price",
  description: "The price of an item.",
  parameters: { type: "object", properties: { item: { type: "string" } }, required: ["item"] },
  run: ({ item }) => PRICES[item] ?? `nothing is named ${item}`,
});

export class Shop extends ToolEnvironment {
  constructor({ seed }: { readonly seed: number }) {
    const [item, answer] = Object.entries(PRICES)[seed % 4] as [string, number];
    const task = { question: `price of ${item}?`, answer };
    super({ task, tools: [price], rewardFunction: mathReward({ extraction: "whole" }), maxSteps: 3 });
  }
}

export class Shopper extends BaseAgent {
  readonly chatCompletions: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  reset(): void {} // An instance plays one try only.
  updateFromEnv({ question, toolOutputs = [] }: { question?: string } & Partial<ToolOutputs>): void {
    if (question !== undefined) this.chatCompletions.push({ role: "user", content: question });
    for (const { toolCallId, output: content } of toolOutputs) {
      this.chatCompletions.push({ role: "tool", content, toolCallId });
    }
  }
  updateFromModel(response: string) {
    const { calls, text } = parseAnswer(response, {}, this.trajectory.steps.length);
    const action = calls.length > 0 ? calls : text;
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action }));
    return { action };
  }
}

export default defineJob({
  agent: Shopper,
  environment: Shop,
  train: { seeds: { first: 1, count: 1_000_000 } },
  algorithm: grpo({ groupSize: 8, learningRate: 1e-3, clipHigh: 0.28 }),
  loop: { steps: 100, batchGroups: 16 },
  sampling: { maxTokens: 80 },
  limits: { maxSteps: 3, maxPromptTokens: 64, maxResponseTokens: 400, episodeTimeout: "60s" },
});
