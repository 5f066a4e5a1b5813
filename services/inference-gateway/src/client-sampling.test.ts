// SPDX-License-Identifier: Apache-2.0
// What a client asks for beside its job's sampling: penalties, biases, forms, and what the job makes of them.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import type { FakeRequest } from "../test/fake-engine.ts";
import { calls, chat, chatStream, eventually, post, serve, startGateway, TINY, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

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
afterEach(() => {
  engine.hold = false;
});

const hi = [user("hi")];
const last = (): FakeRequest["sampling_params"] & Record<string, unknown> => engine.requests.at(-1)!.sampling_params;

/** A session whose calls are held to the job's sampling. */
async function openSession(session: string, client_sampling: string, sampling: object = { temperature: 1 }) {
  const { status } = await post(gateway, `/s/${session}/key`, { sampling, client_sampling });
  expect(status).toBe(201);
}

describe("penalties, biases and forms", () => {
  const SCHEMA = { type: "object", properties: { a: { type: "string" } } };
  const asking: [object, object][] = [
    [{ presence_penalty: 0.5 }, { presence_penalty: 0.5 }],
    [{ frequency_penalty: -1 }, { frequency_penalty: -1 }],
    [{ repetition_penalty: 1.1 }, { repetition_penalty: 1.1 }],
    [{ logit_bias: { "50": -100 } }, { logit_bias: { "50": -100 } }],
    [{ response_format: { type: "json_object" } }, { structured_outputs: { json_object: true } }],
    [
      { response_format: { type: "json_schema", json_schema: { name: "a", schema: SCHEMA } } },
      { structured_outputs: { json: SCHEMA } },
    ],
  ];

  it.each(asking)("%j reaches the engine, and the call is kept as context", async (asked, wire) => {
    const session = `asks-${Object.keys(asked).join()}-${JSON.stringify(asked).length}`;
    expect((await chat(gateway, session, hi, asked)).status).toBe(200);
    expect(last()).toMatchObject(wire);
    const [call] = (await calls(gateway, session)).calls;
    expect(call?.alteredBy).toEqual(Object.keys(asked));
  });

  it("a call without any tells the engine nothing of them, and is trained", async () => {
    await chat(gateway, "plain", hi, { presence_penalty: 0, logit_bias: {}, response_format: { type: "text" } });
    expect(Object.keys(last()).filter((name) => /penalty|bias|structured/.test(name))).toEqual([]);
    expect((await calls(gateway, "plain")).calls[0]?.alteredBy).toEqual([]);
  });

  it("the form of a response", async () => {
    const format = { type: "json_schema", name: "a", schema: SCHEMA, strict: true };
    const body = { model: "job", input: "hi", text: { format } };
    expect((await post(gateway, "/s/form/v1/responses", body)).status).toBe(200);
    expect(last()).toMatchObject({ structured_outputs: { json: SCHEMA } });
  });

  const odd: [string, object][] = [
    ["presence_penalty", { presence_penalty: 3 }],
    ["repetition_penalty", { repetition_penalty: 0 }],
    ["logit_bias.x", { logit_bias: { x: 1 } }],
    ["logit_bias.5", { logit_bias: { "5": "1" } }],
    ["response_format.type", { response_format: { type: "xml" } }],
    ["response_format", { response_format: { type: "json_schema", json_schema: { name: "a" } } }],
    [
      "response_format",
      {
        response_format: { type: "json_object" },
        tools: [{ type: "function", function: { name: "f", parameters: {} } }],
      },
    ],
  ];
  it.each(odd)("%s is refused by name", async (param, more) => {
    expect(await chat(gateway, "odd", hi, more)).toMatchObject({ status: 400, body: { error: { param } } });
  });

  it("a call that is interrupted begins anew, and a stream says nothing of what was lost", async () => {
    engine.script = () => [...Buffer.from("abc"), 260];
    engine.hold = true;
    const streamed = chatStream(gateway, "anew", hi, { presence_penalty: 1 });
    await eventually(() => engine.running === 1);
    engine.script = () => [...Buffer.from("xyz"), 260];
    engine.hold = false;
    const before = engine.requests.length;
    engine.abortAll();
    const text = (await streamed).flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("");
    expect(text).toBe("xyz");
    // Not the prompt and what there was of the answer.
    expect(engine.requests[before]?.token_ids).toEqual(engine.requests[before - 1]?.token_ids);
    const [call] = (await calls(gateway, "anew")).calls;
    expect(call?.completionIds).toEqual([...Buffer.from("xyz"), 260]);
    expect(call?.versionSpans).toMatchObject([{ start: 0, end: 4 }]);
  });
});

describe("what the job makes of it", () => {
  it("what a client does not ask for is as the job has it", async () => {
    await openSession("quiet", "context", { temperature: 0.5, top_k: 7, max_tokens: 9 });
    await chat(gateway, "quiet", hi);
    expect(last()).toMatchObject({ temperature: 0.5, top_k: 7, max_tokens: 9 });
    expect((await calls(gateway, "quiet")).calls[0]?.alteredBy).toEqual([]);
  });

  it("context: it holds, and a call drawn otherwise is not trained", async () => {
    await openSession("context", "context");
    await chat(gateway, "context", hi, { temperature: 0.2, top_p: 1, seed: 4 });
    await chat(gateway, "context", hi, { temperature: 1 });
    const [other, same] = (await calls(gateway, "context")).calls;
    expect([other?.alteredBy, same?.alteredBy]).toEqual([["temperature"], []]);
    expect(other?.sampling?.temperature).toBe(0.2);
  });

  it("override: the job's holds, and the answer names what was asked for in vain", async () => {
    await openSession("override", "override", { temperature: 1, max_tokens: 5 });
    const asked = { temperature: 0, seed: 4, presence_penalty: 1, max_tokens: 50 };
    const { headers } = await chat(gateway, "override", hi, asked);
    expect(headers.get("x-whetstone-overridden")).toBe("temperature, presence_penalty, seed");
    expect(last()).toMatchObject({ temperature: 1, max_tokens: 5 });
    expect(last()).not.toHaveProperty("presence_penalty");
    expect(last().seed).toBeUndefined();
    expect((await calls(gateway, "override")).calls[0]?.alteredBy).toEqual([]);
  });

  it("refuse: the field is named; what the job has, too, passes", async () => {
    await openSession("refuse", "refuse");
    const refused = await chat(gateway, "refuse", hi, { temperature: 0 });
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { param: "temperature", code: "sampling_is_fixed" } },
    });
    expect((await chat(gateway, "refuse", hi, { temperature: 1, max_tokens: 3 })).status).toBe(200);
  });

  const odd: [string, object][] = [
    ["client_sampling", { sampling: {}, client_sampling: "perhaps" }],
    ["sampling", { sampling: 5 }],
    ["temperature", { sampling: { temperature: 9 } }],
  ];
  it.each(odd)("terms that nobody can keep are refused by name: %s", async (param, body) => {
    expect(await post(gateway, "/s/odd/key", body)).toMatchObject({ status: 400, body: { error: { param } } });
  });
});
