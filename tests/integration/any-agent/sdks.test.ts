// SPDX-License-Identifier: Apache-2.0
// Plain SDKs, only base URL and key set: ten tool turns, streamed and whole, and the ids are the engine's own.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  ANSWER,
  type Endpoint,
  look,
  ONE_CHAIN,
  openRoom,
  PARAMETERS,
  QUESTION,
  type Room,
  TURNS,
} from "./ten-turns.ts";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterAll(() => room[Symbol.asyncDispose]());

const DESCRIPTION = "Looks into a place";

async function expectOneChain(agent: (endpoint: Endpoint, seen: unknown[]) => Promise<string>): Promise<void> {
  const seen: unknown[] = [];
  const { text, trained, sampled, parents } = await room.play((endpoint) => agent(endpoint, seen));
  expect(text).toBe(ANSWER);
  expect(seen).toEqual(Array.from({ length: TURNS }, (_, n) => ({ place: `drawer <${n}> é`, n })));
  expect(parents).toEqual(ONE_CHAIN);
  expect(trained).toEqual(sampled);
}

function openai({ baseUrl, apiKey }: Endpoint): OpenAI {
  return new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
}

describe("openai, chat completions", () => {
  const tools = [
    { type: "function" as const, function: { name: "look", description: DESCRIPTION, parameters: PARAMETERS } },
  ];

  it.each([false, true])("streamed: %s", async (stream) => {
    await expectOneChain(async (endpoint, seen) => {
      const client = openai(endpoint);
      const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: QUESTION }];
      for (;;) {
        const asked = { model: endpoint.model, messages, tools };
        const completion = stream
          ? await client.chat.completions.stream(asked).finalChatCompletion()
          : await client.chat.completions.create(asked);
        const message = completion.choices[0]!.message;
        messages.push(message);
        if (!message.tool_calls?.length) return message.content ?? "";
        for (const call of message.tool_calls) {
          if (call.type !== "function") throw new Error(call.type);
          const args = JSON.parse(call.function.arguments) as { place: string; n: number };
          messages.push({ role: "tool", tool_call_id: call.id, content: look(seen, args) });
        }
      }
    });
  });
});

describe("openai, responses", () => {
  const tools = [
    { type: "function" as const, name: "look", description: DESCRIPTION, parameters: PARAMETERS, strict: true },
  ];

  type Asked = Omit<OpenAI.Responses.ResponseCreateParamsNonStreaming, "stream">;
  async function respond(client: OpenAI, asked: Asked, stream: boolean): Promise<OpenAI.Responses.Response> {
    return stream ? await client.responses.stream(asked).finalResponse() : await client.responses.create(asked);
  }

  it.each([
    [false, "by name"],
    [true, "by name"],
    [false, "by the whole input"],
    [true, "by the whole input"],
  ])("streamed: %s, going on %s", async (stream, way) => {
    await expectOneChain(async (endpoint, seen) => {
      const client = openai(endpoint);
      const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: QUESTION }];
      let previous: string | null = null;
      for (;;) {
        const own = way === "by name" ? { previous_response_id: previous } : { store: false };
        const response = await respond(
          client,
          { model: endpoint.model, input: [...input], instructions: "Be brief.", tools, ...own },
          stream,
        );
        previous = response.id;
        if (way === "by name") input.length = 0;
        else input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]));
        const made = response.output.filter((item) => item.type === "function_call");
        if (made.length === 0) return response.output_text;
        for (const { call_id, arguments: args } of made)
          input.push({
            type: "function_call_output",
            call_id,
            output: look(seen, JSON.parse(args) as { place: string; n: number }),
          });
      }
    });
  });
});

describe("@anthropic-ai/sdk, messages", () => {
  const tools = [{ name: "look", description: DESCRIPTION, input_schema: PARAMETERS }];

  it.each([false, true])("streamed: %s", async (stream) => {
    await expectOneChain(async ({ baseUrl, apiKey, model }, seen) => {
      const client = new Anthropic({ baseURL: baseUrl.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
      for (;;) {
        const asked = {
          model,
          max_tokens: 1000,
          system: "Be brief.",
          messages,
          tools: tools as unknown as Anthropic.Tool[],
        };
        const answer = stream
          ? await client.messages.stream(asked).finalMessage()
          : await client.messages.create(asked);
        messages.push({ role: "assistant", content: answer.content });
        const made = answer.content.filter((block) => block.type === "tool_use");
        if (made.length === 0) return answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
        expect(answer.stop_reason).toBe("tool_use");
        messages.push({
          role: "user",
          content: made.map(({ id, input }) => ({
            ...{
              type: "tool_result" as const,
              tool_use_id: id,
              content: look(seen, input as { place: string; n: number }),
            },
          })),
        });
      }
    });
  });
});

describe("a key that was never issued", () => {
  it("is refused with 401 in each dialect's own form", async () => {
    const endpoint = { baseUrl: `${room.gateway.httpUrl}/v1`, apiKey: "sk-unknown", model: "policy" };
    const messages = [{ role: "user" as const, content: "x" }];
    const client = openai(endpoint);
    await expect(client.chat.completions.create({ model: "policy", messages })).rejects.toBeInstanceOf(
      OpenAI.AuthenticationError,
    );
    await expect(client.responses.create({ model: "policy", input: "x" })).rejects.toBeInstanceOf(
      OpenAI.AuthenticationError,
    );
    const other = new Anthropic({ baseURL: room.gateway.httpUrl, apiKey: "sk-unknown", maxRetries: 0 });
    await expect(other.messages.create({ model: "policy", max_tokens: 5, messages })).rejects.toMatchObject({
      status: 401,
      error: { type: "error", error: { type: "authentication_error" } },
    });
  });
});
