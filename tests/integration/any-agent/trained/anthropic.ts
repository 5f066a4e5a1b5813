// SPDX-License-Identifier: Apache-2.0
import Anthropic from "@anthropic-ai/sdk";
import { MOST_TOKENS, twoQuestions } from "./two-questions.ts";

export default twoQuestions("plain-anthropic", ({ baseUrl, apiKey, model, streamed, signal }) => {
  const client = new Anthropic({ baseURL: baseUrl.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
  const messages: Anthropic.MessageParam[] = [];
  return async (question) => {
    messages.push({ role: "user", content: question });
    const asked = { model, messages, max_tokens: MOST_TOKENS, system: "Be brief." };
    const { content } = streamed
      ? await client.messages.stream(asked, { signal }).finalMessage()
      : await client.messages.create(asked, { signal });
    messages.push({ role: "assistant", content });
    return content.map((block) => (block.type === "text" ? block.text : "")).join("");
  };
});
