// SPDX-License-Identifier: Apache-2.0
// Agents of the usual libraries as their own pages write them, only base URL and key set: ten tool turns, one chain of ids.
import { createOpenAI } from "@ai-sdk/openai";
import { HumanMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { ChatOpenAI } from "@langchain/openai";
import { Agent as MastraAgent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { Agent, OpenAIProvider, Runner, tool as agentsTool } from "@openai/agents";
import { generateText, stepCountIs, streamText, tool as aiTool } from "ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { ANSWER, type Endpoint, look, ONE_CHAIN, openRoom, QUESTION, type Room, TURNS } from "./ten-turns.ts";

let room: Room;
beforeAll(async () => {
  room = await openRoom();
});
afterAll(() => room[Symbol.asyncDispose]());

const STEPS = 20;
const description = "Looks into a place";
const schema = z.object({ place: z.string(), n: z.number().int() });

async function expectOneChain(agent: (endpoint: Endpoint, seen: unknown[]) => Promise<string>): Promise<void> {
  const seen: unknown[] = [];
  const { text, trained, sampled, parents } = await room.play((endpoint) => agent(endpoint, seen));
  expect(text).toBe(ANSWER);
  expect(seen).toEqual(Array.from({ length: TURNS }, (_, n) => ({ place: `drawer <${n}> é`, n })));
  expect(parents).toEqual(ONE_CHAIN);
  expect(trained).toEqual(sampled);
}

describe("Vercel's AI SDK", () => {
  const settings = ({ baseUrl, apiKey, model }: Endpoint, seen: unknown[], api: "responses" | "chat") => {
    const openai = createOpenAI({ baseURL: baseUrl, apiKey });
    return {
      model: api === "chat" ? openai.chat(model) : openai(model),
      prompt: QUESTION,
      tools: { look: aiTool({ description, inputSchema: schema, execute: (args) => look(seen, args) }) },
      stopWhen: stepCountIs(STEPS),
    };
  };

  it.each(["responses", "chat"] as const)("generateText, %s", async (api) => {
    await expectOneChain(async (endpoint, seen) => (await generateText(settings(endpoint, seen, api))).text);
  });

  it.each(["responses", "chat"] as const)("streamText, %s", async (api) => {
    await expectOneChain(async (endpoint, seen) => {
      const result = streamText(settings(endpoint, seen, api));
      await result.consumeStream();
      return await result.text;
    });
  });
});

describe("openai-agents-js", () => {
  it.each([
    [true, false],
    [true, true],
    [false, false],
    [false, true],
  ])("responses: %s, streamed: %s", async (useResponses, stream) => {
    await expectOneChain(async ({ baseUrl, apiKey, model }, seen) => {
      const modelProvider = new OpenAIProvider({ baseURL: baseUrl, apiKey, useResponses });
      const runner = new Runner({ modelProvider, tracingDisabled: true });
      const tools = [
        agentsTool({ name: "look", description, parameters: schema, execute: (args) => look(seen, args) }),
      ];
      const agent = new Agent({ name: "Finder", instructions: "Be brief.", model, tools });
      if (!stream) return String((await runner.run(agent, QUESTION, { maxTurns: STEPS })).finalOutput);
      const result = await runner.run(agent, QUESTION, { maxTurns: STEPS, stream: true });
      await result.completed;
      return String(result.finalOutput);
    });
  });
});

describe("LangGraph.js", () => {
  it.each([false, true])("createReactAgent, streamed: %s", async (stream) => {
    await expectOneChain(async ({ baseUrl, apiKey, model }, seen) => {
      const llm = new ChatOpenAI({ model, apiKey, configuration: { baseURL: baseUrl }, maxRetries: 0 });
      const tools = [langchainTool((args) => look(seen, args), { name: "look", description, schema })];
      const agent = createReactAgent({ llm, tools });
      const [input, settings] = [{ messages: [new HumanMessage(QUESTION)] }, { recursionLimit: 3 * STEPS }];
      if (!stream) return (await agent.invoke(input, settings)).messages.at(-1)?.text ?? "";
      let last = "";
      for await (const [message] of await agent.stream(input, { ...settings, streamMode: "messages" }))
        last = message.getType() === "ai" ? last + message.text : "";
      return last;
    });
  });
});

describe("Mastra", () => {
  it.each([false, true])("Agent, streamed: %s", async (stream) => {
    await expectOneChain(async ({ baseUrl, apiKey, model }, seen) => {
      const tools = {
        look: createTool({
          id: "look",
          description,
          inputSchema: schema,
          execute: (args) => Promise.resolve(look(seen, args)),
        }),
      };
      const agent = new MastraAgent({
        ...{ id: "finder", name: "Finder", instructions: "Be brief.", tools },
        // Its types are those of another version of the AI SDK.
        model: createOpenAI({ baseURL: baseUrl, apiKey })(model) as unknown as "openai/policy",
      });
      const settings = { maxSteps: STEPS };
      if (stream) return await (await agent.stream(QUESTION, settings)).text;
      // Here its text is that of all steps together.
      return (await agent.generate(QUESTION, settings)).text.replace(/^(Looking, \d\.)+/, "");
    });
  });
});
