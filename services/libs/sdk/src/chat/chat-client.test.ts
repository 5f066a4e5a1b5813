// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ChatClient, type ChatOptions, PromptTooLongError } from "../index.ts";

interface Seen {
  readonly path: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
  readonly socket: Socket;
}

const ANSWER = {
  id: "chatcmpl-1",
  choices: [{ message: { content: "R" }, finish_reason: "length" }],
  usage: { prompt_tokens: 21, completion_tokens: 2 },
};

let server: Server;
let client: ChatClient;
let seen: Seen[];
let respond: (response: ServerResponse, call: number) => void;

beforeEach(async () => {
  seen = [];
  respond = (response) => response.end(JSON.stringify(ANSWER));
  server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      seen.push({ path: request.url, headers: request.headers, body: JSON.parse(text), socket: request.socket });
      respond(response, seen.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  client = new ChatClient({ baseUrl: `http://127.0.0.1:${port}/s/x.1`, model: 'a"b' });
});

afterEach(async () => {
  await client.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function ask(options: Partial<ChatOptions> = {}) {
  return client.chat([{ role: "user", content: "é" }], {
    sampling: { temperature: 0.5, topP: 0.9, topK: 4, minP: 0.1 },
    maxTokens: 8,
    seed: 3,
    role: "solver",
    signal: new AbortController().signal,
    remainingMs: 1234.2,
    ...options,
  });
}

describe("a call", () => {
  it("sends what was asked, and reads text, reason, usage and name", async () => {
    expect(await ask()).toEqual({
      text: "R",
      finishReason: "length",
      usage: { promptTokens: 21, completionTokens: 2 },
      callId: "chatcmpl-1",
    });
    expect(seen[0]).toMatchObject({
      path: "/s/x.1/v1/chat/completions",
      headers: { "x-whetstone-role": "solver", "x-whetstone-timeout-ms": "1235" },
      body: {
        model: 'a"b',
        messages: [{ role: "user", content: "é" }],
        max_tokens: 8,
        seed: 3,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 4,
        min_p: 0.1,
      },
    });
  });

  it("prefers the gateway's own name of the call", async () => {
    respond = (response) => response.end(JSON.stringify({ ...ANSWER, call_id: "c4" }));
    expect((await ask()).callId).toBe("c4");
  });

  it("keeps its connections", async () => {
    for (let i = 0; i < 10; i += 1) await ask();
    expect(new Set(seen.map(({ socket }) => socket)).size).toBeLessThanOrEqual(2);
  });

  it("leaves out what is not set, and writes tools in the wire's shape", async () => {
    const toolCalls = [{ id: "k", name: "f", argumentsJson: "{" }];
    const messages = [
      { role: "assistant", content: "", toolCalls },
      { role: "tool", content: "1", toolCallId: "k" },
    ] as const;
    const options = {
      sampling: {},
      maxTokens: 1,
      seed: 0,
      role: "agent",
      signal: new AbortController().signal,
      remainingMs: 9,
    };
    await client.chat(messages, options);
    expect(Object.keys(seen[0]?.body as object)).toEqual(["model", "messages", "max_tokens", "seed"]);
    expect((seen[0]?.body as { messages: unknown }).messages).toEqual([
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: "k", type: "function", function: { name: "f", arguments: "{" } }],
      },
      { role: "tool", content: "1", tool_call_id: "k" },
    ]);
  });
});

describe("tools, reasoning and ids", () => {
  const choice = {
    message: {
      content: null,
      reasoning_content: "hm",
      tool_calls: [{ id: "k", type: "function", function: { name: "f", arguments: '{"a":' } }],
    },
    finish_reason: "tool_calls",
    token_ids: [5, 6],
    logprobs: { content: [{ logprob: -0.5 }, { logprob: -0.25 }] },
  };
  const reply = (body: object) => {
    respond = (response) => response.end(JSON.stringify({ ...ANSWER, ...body }));
  };

  it("are read where the server gives them", async () => {
    reply({ choices: [choice], prompt_token_ids: [1, 2, 3], call_id: "c0" });
    expect(await ask({ returnTokenIds: true })).toEqual({
      text: "",
      finishReason: "tool_calls",
      usage: { promptTokens: 21, completionTokens: 2 },
      callId: "c0",
      reasoning: "hm",
      toolCalls: [{ id: "k", name: "f", argumentsJson: '{"a":' }],
      promptIds: [1, 2, 3],
      completionIds: [5, 6],
      logprobs: [-0.5, -0.25],
    });
  });

  it("takes the reasoning under vLLM's newer name", async () => {
    reply({ choices: [{ message: { content: "x", reasoning: "new" }, finish_reason: "stop" }] });
    expect(await ask()).toMatchObject({ text: "x", reasoning: "new" });
  });

  it("refuses ids without a log-probability each: they could not be trained on", async () => {
    reply({ choices: [{ ...choice, logprobs: null }], prompt_token_ids: [1] });
    await expect(ask({ returnTokenIds: true })).rejects.toThrow(/2 token ids but 0 log-probabilities/);
  });

  it("are asked for with vLLM's fields, only when wanted", async () => {
    const tools = [{ type: "function" as const, function: { name: "f", parameters: { type: "object" } } }];
    const chatTemplateKwargs = { enable_thinking: false };
    await ask({ tools, chatTemplateKwargs, returnTokenIds: true, model: "judge" });
    const wanted = { return_token_ids: true, logprobs: true, chat_template_kwargs: chatTemplateKwargs };
    expect(seen[0]?.body).toMatchObject({ model: "judge", tools, ...wanted });
    await ask({ tools: [] });
    expect(Object.keys(seen[1]?.body as object)).toEqual([
      "model",
      "messages",
      "max_tokens",
      "seed",
      "temperature",
      "top_p",
      "top_k",
      "min_p",
    ]);
  });

  it("sends an assistant's kept thinking beside its content", async () => {
    await client.chat([{ role: "assistant", content: "x", reasoning: "hm" }], {
      sampling: {},
      maxTokens: 1,
      seed: 0,
      role: "agent",
      signal: new AbortController().signal,
      remainingMs: 1000,
    });
    expect(seen[0]?.body).toMatchObject({ messages: [{ role: "assistant", content: "x", reasoning_content: "hm" }] });
  });
});

describe("retries", () => {
  it.each([429, 503])("repeats %i, under the same key, and gives the next call another", async (status) => {
    respond = (response, call) => {
      response.writeHead(call === 1 ? status : 200).end(JSON.stringify(ANSWER));
    };
    await ask();
    await ask();
    const keys = seen.map(({ headers }) => headers["x-whetstone-idempotency-key"]);
    expect(keys).toEqual(["0", "0", "1"]);
  });

  it("repeats when the connection breaks", async () => {
    respond = (response, call) => {
      if (call === 1) response.destroy();
      else response.end(JSON.stringify(ANSWER));
    };
    expect((await ask()).text).toBe("R");
  });

  it("gives up after its attempts, as INFRASTRUCTURE", async () => {
    respond = (response) => response.writeHead(503, { "retry-after": "0.01" }).end("busy");
    await expect(ask()).rejects.toMatchObject({ failureClass: "INFRASTRUCTURE", code: "UNAVAILABLE" });
    expect(seen).toHaveLength(4);
  });

  it("stops waiting when the signal aborts", async () => {
    const stop = new AbortController();
    respond = (response) => {
      response.writeHead(503, { "retry-after": "5" }).end();
      setTimeout(() => stop.abort(), 50);
    };
    await expect(ask({ signal: stop.signal })).rejects.toThrow(/abort/i);
    expect(seen).toHaveLength(1);
  });

  it.each([
    [400, { code: "invalid_value" }, { failureClass: "TASK" }],
    [404, { code: "model_not_found" }, { failureClass: "INFRASTRUCTURE" }],
    [500, {}, { failureClass: "INFRASTRUCTURE", code: "ENGINE_FAILED" }],
    [504, {}, { failureClass: "INFRASTRUCTURE", code: "DEADLINE_EXCEEDED" }],
  ])("does not repeat %i", async (status, error, expected) => {
    respond = (response) => response.writeHead(status).end(JSON.stringify({ error: { message: "no", ...error } }));
    await expect(ask()).rejects.toMatchObject(expected);
    expect(seen).toHaveLength(1);
  });

  it("knows a prompt that is too long", async () => {
    const error = { message: "too long", code: "context_length_exceeded" };
    respond = (response) => response.writeHead(400).end(JSON.stringify({ error }));
    await expect(ask()).rejects.toBeInstanceOf(PromptTooLongError);
  });

  it("refuses an answer without usage: budgets are counted from it", async () => {
    respond = (response) => response.end(JSON.stringify({ ...ANSWER, usage: undefined }));
    await expect(ask()).rejects.toMatchObject({ code: "CONTRACT_VIOLATION" });
  });
});

describe("cancel", () => {
  it("closes the connection, so that the server stops working", async () => {
    const closed = Promise.withResolvers<void>();
    const cancel = new AbortController();
    respond = (response) => {
      response.once("close", closed.resolve);
      cancel.abort(new Error("enough"));
    };
    await expect(ask({ signal: cancel.signal })).rejects.toThrow("enough");
    await closed.promise;
  });

  it("does not even start with an aborted signal", async () => {
    await expect(ask({ signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    expect(seen).toHaveLength(0);
  });
});
