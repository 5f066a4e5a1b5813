// SPDX-License-Identifier: Apache-2.0
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { MOST_TOKENS, twoQuestions } from "./two-questions.ts";

const look = createTool({
  id: "look",
  description: "Looks",
  inputSchema: z.object({ n: z.number() }),
  execute: ({ n }) => Promise.resolve(`nothing in ${n}`),
});

interface Said<Role> {
  readonly role: Role;
  readonly content: string;
}

export default twoQuestions("mastra", ({ baseUrl, apiKey, model, streamed, signal }) => {
  const agent = new Agent({
    ...{ id: "sayer", name: "Sayer", instructions: "Be brief.", tools: { look } },
    // Its types are those of another version of the AI SDK.
    model: createOpenAI({ baseURL: baseUrl, apiKey })(model) as unknown as "openai/policy",
  });
  const settings = { modelSettings: { maxOutputTokens: MOST_TOKENS }, abortSignal: signal };
  const messages: (Said<"user"> | Said<"assistant">)[] = [];
  return async (question) => {
    messages.push({ role: "user", content: question });
    const answer = streamed ? await agent.stream(messages, settings) : await agent.generate(messages, settings);
    const text = await answer.text;
    messages.push({ role: "assistant", content: text });
    return text;
  };
});
