// SPDX-License-Identifier: Apache-2.0
import {
  codingCliAgentIn,
  commandAgentIn,
  frozenLakeAgent,
  httpAgent,
  type RegisteredActor,
  type RunSandboxed,
} from "@whetstone/sdk";
import { codeAgent, mathAgent } from "./question.ts";
import { searchAgent } from "./search.ts";
import { sweAgent } from "./swe.ts";
import { toolAgent } from "./tool.ts";
import { webAgent } from "./web.ts";

type CallbackOptions = Parameters<typeof httpAgent>[0];

/**
 * What every orchestrator can play without a module.
 * @param callbacks  where HTTP agents deliver their results
 * @param runSandboxed  where programs run; absent: this process is in a sandbox itself, or a test
 */
export function builtInActors(callbacks?: CallbackOptions, runSandboxed?: RunSandboxed): readonly RegisteredActor[] {
  return [
    frozenLakeAgent,
    mathAgent,
    codeAgent,
    toolAgent,
    searchAgent,
    sweAgent,
    webAgent,
    commandAgentIn(runSandboxed),
    codingCliAgentIn(runSandboxed),
    httpAgent(callbacks),
  ];
}

export const BUILT_IN = builtInActors();
