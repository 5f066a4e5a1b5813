// SPDX-License-Identifier: Apache-2.0
import OpenAI from "openai";
import { MOST_TOKENS, twoQuestions } from "./two-questions.ts";

export default twoQuestions("plain-openai", ({ baseUrl, apiKey, model, streamed, signal }) => {
  const client = new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
  const messages: OpenAI.ChatCompletionMessageParam[] = [];
  return async (question) => {
    messages.push({ role: "user", content: question });
    const asked = { model, messages, max_tokens: MOST_TOKENS, temperature: 0 };
    const { choices } = streamed
      ? await client.chat.completions.stream(asked, { signal }).finalChatCompletion()
      : await client.chat.completions.create(asked, { signal });
    const message = choices[0]!.message;
    messages.push(message);
    return message.content ?? "";
  };
});
