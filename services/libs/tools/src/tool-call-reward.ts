// SPDX-License-Identifier: Apache-2.0
import { type RewardFunction, splitThinking } from "@whetstone/sdk";
import type { Tool } from "./tool.ts";
import { parseToolCalls } from "./tool-calls.ts";
import { ToolRegistry } from "./tool-registry.ts";

/** 1 where a text makes at least one call and each of them could be run: readable, of a known tool, arguments valid. */
export function toolCallFormatReward(tools: readonly Tool[]): RewardFunction {
  const registry = new ToolRegistry(tools);
  return (_task, action) => {
    const { calls } = parseToolCalls(splitThinking(action).answer);
    const problems = calls.flatMap((call) => registry.problemOf(call) ?? []);
    const isCorrect = calls.length > 0 && problems.length === 0;
    return { reward: isCorrect ? 1 : 0, isCorrect, metadata: { calls: calls.length, problems } };
  };
}
