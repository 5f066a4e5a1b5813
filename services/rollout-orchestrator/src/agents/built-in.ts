// SPDX-License-Identifier: Apache-2.0
import { commandAgent, frozenLakeAgent, httpAgent, type RegisteredActor } from "@whetstone/sdk";
import { codeAgent, mathAgent } from "./question.ts";
import { toolAgent } from "./tool.ts";

type CallbackOptions = Parameters<typeof httpAgent>[0];

/** What every orchestrator can play without a module. @param callbacks  where HTTP agents deliver their results. */
export function builtInActors(callbacks?: CallbackOptions): readonly RegisteredActor[] {
  return [frozenLakeAgent, mathAgent, codeAgent, toolAgent, commandAgent, httpAgent(callbacks)];
}

export const BUILT_IN = builtInActors();
