// SPDX-License-Identifier: Apache-2.0
// By chat completions: of its default API, responses, it takes no answer that was cut at its most tokens.
import { Agent, type AgentInputItem, OpenAIProvider, Runner, tool, user } from "@openai/agents";
import { z } from "zod";
import { MOST_TOKENS, twoQuestions } from "./two-questions.ts";

const look = tool({
  name: "look",
  description: "Looks",
  parameters: z.object({ n: z.number() }),
  execute: ({ n }) => `nothing in ${n}`,
});

export default twoQuestions("openai-agents-js", ({ baseUrl, apiKey, model, streamed, signal }) => {
  const modelProvider = new OpenAIProvider({ baseURL: baseUrl, apiKey, useResponses: false });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const modelSettings = { maxTokens: MOST_TOKENS };
  const agent = new Agent({ name: "Sayer", instructions: "Be brief.", model, tools: [look], modelSettings });
  let history: AgentInputItem[] = [];
  return async (question) => {
    const input = [...history, user(question)];
    if (!streamed) {
      const result = await runner.run(agent, input, { signal });
      history = result.history;
      return String(result.finalOutput);
    }
    const result = await runner.run(agent, input, { signal, stream: true });
    await result.completed;
    history = result.history;
    return String(result.finalOutput);
  };
});
