// SPDX-License-Identifier: Apache-2.0
// `/v1/completions`: prompts as they are, as text or as ids, and continuations of exact ids (I4).
import OpenAI from "openai";
import { ForkReason } from "@whetstone/proto/types/v1/types";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../../../services/inference-gateway/test/fake-engine.ts";
import { calls, post, serve, startGateway, TINY } from "../../../services/inference-gateway/test/harness.ts";
import type { Gateway } from "../../../services/inference-gateway/test/harness.ts";

const END = 260;
const bytes = (text: string): number[] => [...Buffer.from(text)];

let engine: FakeEngine;
let gateway: Gateway;
beforeAll(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway();
  await serve(gateway, "e0", engine.url, TINY);
});
afterAll(async () => {
  await gateway.close();
  await engine.kill();
});

async function client(session: string): Promise<OpenAI> {
  const { key } = await gateway.openKey(session);
  return new OpenAI({ baseURL: `${gateway.httpUrl}/v1`, apiKey: key, maxRetries: 0 });
}

describe("text completions", () => {
  it("take a prompt as it is, and tell ids and log-probabilities", async () => {
    engine.script = () => [...bytes("four"), END];
    const openai = await client("plain");
    const { choices, usage } = await openai.completions.create({
      model: "job",
      prompt: "2+2=",
      max_tokens: 9,
      logprobs: 1,
    });
    expect(choices[0]).toMatchObject({
      text: "four",
      finish_reason: "stop",
      logprobs: { tokens: ["f", "o", "u", "r", "<|end|>"] },
    });
    expect(usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 5 });
    expect(engine.requests.at(-1)?.token_ids).toEqual(bytes("2+2="));
  });

  it("stream what they would answer whole", async () => {
    engine.script = () => [...bytes("né ok"), END];
    const openai = await client("streamed");
    let text = "";
    for await (const chunk of await openai.completions.create({ model: "job", prompt: "x", stream: true }))
      text += chunk.choices[0]?.text ?? "";
    expect(text).toBe("né ok");
  });

  it("continue a cut answer by its text, and any by its ids", async () => {
    const openai = await client("on");
    engine.script = () => bytes("ab");
    await openai.completions.create({ model: "job", prompt: "x", max_tokens: 2 });
    await openai.completions.create({ model: "job", prompt: "xabyz", max_tokens: 2 });
    engine.script = () => [65, END];
    await openai.completions.create({ model: "job", prompt: [...bytes("xabyzab"), 66], max_tokens: 2 });
    await openai.completions.create({ model: "job", prompt: "other", max_tokens: 2 });
    expect((await calls(gateway, "on")).calls).toMatchObject([
      { parentId: "", promptIds: bytes("x") },
      { parentId: "c0", promptIds: bytes("yz") },
      { parentId: "c1", promptIds: [66], completionIds: [65, END] },
      { parentId: "", forkReason: ForkReason.NO_PREFIX },
    ]);
  });

  it.each([
    ["prompt", { prompt: ["a", "b"] }],
    ["prompt", { prompt: [1.5] }],
    ["echo", { prompt: "x", echo: true }],
    ["messages", { prompt: "x", messages: [] }],
  ])("refuse by the field's path: %s", async (param, more) => {
    expect(await post(gateway, "/v1/completions", { model: "job", ...more })).toMatchObject({
      status: 400,
      body: { error: { param } },
    });
  });
});
