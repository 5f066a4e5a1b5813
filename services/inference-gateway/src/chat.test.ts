// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { assistant, calls, chat, chatStream, TINY, post, serve, startGateway, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

const bytes = (text: string): number[] => [...Buffer.from(text)];
const [USER, ASSISTANT, END] = [256, 257, 260];

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

describe("chat completions", () => {
  it("turns messages into ids and records what was sampled (I4, I5)", async () => {
    const { status, body } = await chat(gateway, "one", [user("hi")], { seed: 7, temperature: 0.5, max_tokens: 4 });
    expect(status).toBe(200);
    expect(body.choices[0]).toMatchObject({ message: { role: "assistant", content: "E" }, finish_reason: "stop" });
    expect(body.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 });
    expect(engine.requests.at(-1)).toMatchObject({
      token_ids: [USER, ...bytes("hi"), ASSISTANT],
      sampling_params: { temperature: 0.5, max_tokens: 4, seed: 7, top_p: 1, top_k: 0, min_p: 0, logprobs: 0 },
    });
    const [call] = (await calls(gateway, "one")).calls;
    expect(call).toMatchObject({
      id: "c0",
      parentId: "",
      completionIds: [69, END],
      text: "E",
      role: "agent",
      seed: 7n,
    });
    expect(call?.promptIds).toEqual([USER, ...bytes("hi"), ASSISTANT]);
    expect(call?.logprobs).toEqual([-69 / 1024, -END / 1024]);
    expect(call?.versionSpans).toMatchObject([{ start: 0, end: 2, policyVersion: 1n }]);
  });

  it("records how a call was drawn, as it tells whether a step can train it", async () => {
    await chat(gateway, "drawn", [user("hi")], { temperature: 0.5, top_p: 0.9, top_k: 20 });
    const [call] = (await calls(gateway, "drawn")).calls;
    expect(call?.sampling).toMatchObject({ temperature: 0.5, topP: 0.9, topK: 20 });
  });

  it.each([
    ["as asked", { top_k: 20 }, 20],
    ["bounded where only top_p truncates", { top_p: 0.9 }, 512],
    ["bounded where only min_p truncates", { min_p: 0.1 }, 512],
  ])("records the support of each token, %s", async (name, fields, topK) => {
    await chat(gateway, `support ${name}`, [user("hi")], fields);
    expect(engine.requests.at(-1)?.sampling_params.top_k).toBe(topK);
    const [call] = (await calls(gateway, `support ${name}`)).calls;
    expect(call?.sampling?.topK).toBe(topK);
    expect(call).toMatchObject({ supportIds: [69, 70, END, END + 1], supportCounts: [2, 2] });
    const chunks = await chatStream(gateway, `streamed ${name}`, [user("hi")], fields);
    expect(chunks.length).toBeGreaterThan(1);
    expect((await calls(gateway, `streamed ${name}`)).calls).toMatchObject([{ supportCounts: [2, 2] }]);
  });

  it("records no support where tokens are drawn from the whole vocabulary", async () => {
    await chat(gateway, "whole vocabulary", [user("hi")], { temperature: 0.5, top_p: 1 });
    expect((await calls(gateway, "whole vocabulary")).calls).toMatchObject([{ supportIds: [], supportCounts: [] }]);
  });

  it("continues a conversation from its exact ids", async () => {
    await chat(gateway, "two", [user("hi")]);
    await chat(gateway, "two", [user("hi"), assistant("E"), user("x")]);
    const [, second] = (await calls(gateway, "two")).calls;
    expect(second).toMatchObject({ parentId: "c0", promptIds: [USER, ...bytes("x"), ASSISTANT], forkReason: 0 });
    expect(engine.requests.at(-1)?.token_ids).toEqual([USER, 104, 105, ASSISTANT, 69, END, USER, 120, ASSISTANT]);
  });

  it("streams what it would have answered whole", async () => {
    engine.script = () => [...bytes("né"), 255, 33, END];
    const whole = await chat(gateway, "whole", [user("s")], { return_token_ids: true });
    const chunks = await chatStream(gateway, "streamed", [user("s")], {
      ...{ return_token_ids: true, stream_options: { include_usage: true } },
    });
    const choices = chunks.flatMap((chunk) => chunk.choices);
    const [expected] = whole.body.choices;
    expect(choices.map((choice) => choice.delta.content ?? "").join("")).toBe(expected!.message.content);
    expect(choices.flatMap((choice) => choice.token_ids ?? [])).toEqual(expected!.token_ids);
    expect([choices[0]!.delta.role, choices.at(-1)!.finish_reason]).toEqual(["assistant", "stop"]);
    expect(chunks.at(-1)!.usage?.completion_tokens).toBe(6);
    const recorded = async (session: string) => {
      const { text, completionIds, logprobs, versionSpans } = (await calls(gateway, session)).calls[0]!;
      return { text, completionIds, logprobs, versionSpans };
    };
    expect(await recorded("streamed")).toEqual(await recorded("whole"));
    engine.script = (request) => [65 + (request.token_ids.length % 26), END];
  });

  it("knows a session by its key, and keeps nothing without one", async () => {
    const { key } = await gateway.openKey("keyed");
    const body = { model: "job", messages: [user("k")] };
    const ask = (headers: Record<string, string>, path = "/v1/chat/completions") =>
      post(gateway, path, body, { headers });
    await ask({ authorization: `Bearer ${key}`, "x-whetstone-role": "judge" });
    await ask({ "x-api-key": key });
    expect((await calls(gateway, "keyed")).calls).toMatchObject([{ id: "c0", role: "judge" }, { id: "c1" }]);
    expect((await ask({})).status).toBe(200);
  });

  it("refuses keys that were not issued, are another session's, or whose session has ended: 401", async () => {
    const { key } = await gateway.openKey("mine");
    await gateway.openKey("other");
    const body = { model: "job", messages: [user("k")] };
    const ask = (authorization: string, path = "") =>
      post(gateway, `${path}/v1/chat/completions`, body, { headers: { authorization } });
    expect(await ask("Bearer my-own")).toMatchObject({ status: 401, body: { error: { code: "invalid_api_key" } } });
    expect((await ask(`Bearer ${key}`, "/s/mine")).status).toBe(200);
    expect((await ask(`Bearer ${key}`, "/s/other")).status).toBe(401);
    expect((await ask("Bearer none", "/s/mine")).status).toBe(200);
    await calls(gateway, "mine", "?close=true");
    expect((await ask(`Bearer ${key}`)).status).toBe(401);
  });
});
