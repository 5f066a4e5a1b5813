// SPDX-License-Identifier: Apache-2.0
import { type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { MOST_TOKENS, twoQuestions } from "./two-questions.ts";

const look = tool(({ n }) => `nothing in ${n}`, {
  name: "look",
  description: "Looks",
  schema: z.object({ n: z.number() }),
});

export default twoQuestions("langgraph-js", ({ baseUrl, apiKey, model, streamed, signal }) => {
  const configuration = { baseURL: baseUrl };
  const settings = { model, apiKey, configuration, maxTokens: MOST_TOKENS, maxRetries: 0 };
  const agent = createReactAgent({ llm: new ChatOpenAI(settings), tools: [look] });
  let messages: BaseMessage[] = [];
  return async (question) => {
    const input = { messages: [...messages, new HumanMessage(question)] };
    if (streamed) {
      // With "messages" the model itself is streamed.
      for await (const [mode, state] of await agent.stream(input, { signal, streamMode: ["messages", "values"] }))
        if (mode === "values") messages = (state as typeof input).messages;
    } else {
      messages = (await agent.invoke(input, { signal })).messages;
    }
    return messages.at(-1)?.text ?? "";
  };
});
