// SPDX-License-Identifier: Apache-2.0
// Which fields of a chat completion do something, which do nothing and harm nothing, and which are refused by name.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { REQUEST_FIELDS } from "./dialects/openai-chat/fields.ts";
import { FakeEngine } from "../test/fake-engine.ts";
import { chat, post, ROOT, serve, startGateway, TINY, user } from "../test/harness.ts";
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

const hi = [user("hi")];

describe("fields that would be dropped", () => {
  const asking: [string, unknown][] = [
    ["bad_words", ["x"]],
    ["reasoning_effort", "high"],
    ["stop_token_ids", [5]],
    ["functions", [{ name: "f" }]],
    ["modalities", ["text", "audio"]],
    ["best_of", 2],
    ["ignore_eos", true],
    ["min_tokens", 3],
    ["guided_json", {}],
    ["temprature", 0.5],
  ];

  it.each(asking)("are refused by name in OpenAI's error object: %s = %j", async (name, value) => {
    const before = engine.requests.length;
    const { status, body } = await chat(gateway, "refused", hi, { [name]: value });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ type: "invalid_request_error", param: name });
    expect(body.error?.code).toMatch(/^(unsupported|unknown)_parameter$/);
    expect(body.error?.message.startsWith(`${name}: `)).toBe(true);
    expect(engine.requests.length).toBe(before);
  });

  it("pass with every value that asks for nothing, and null passes in every field that may be left out", async () => {
    for (const [name, rule] of REQUEST_FIELDS) {
      if (name === "model" || name === "messages") continue;
      const values = rule.kind === "refused" ? [...rule.passes, null] : [null];
      for (const value of values) {
        const { status, body } = await chat(gateway, "", hi, { [name]: value });
        expect([status, body.error?.message], `${name} = ${JSON.stringify(value)}`).toEqual([200, undefined]);
      }
    }
  });

  it("do not stand in the way of what ordinary clients send by themselves", async () => {
    const usual = {
      ...{ n: 1, presence_penalty: 0, frequency_penalty: 0, logit_bias: {}, response_format: { type: "text" } },
      ...{ stream: false, stop: null, user: "u", store: false, metadata: { run: "1" }, service_tier: "auto" },
      ...{ parallel_tool_calls: true, tool_choice: "auto", prompt_cache_key: "k", safety_identifier: "s" },
      tools: [{ type: "function", function: { name: "f", parameters: {} } }],
    };
    expect((await chat(gateway, "usual", hi, usual)).status).toBe(200);
  });
});

describe("odd values of honoured fields", () => {
  const odd: [string, object][] = [
    ["top_logprobs", { top_logprobs: 2 }],
    ["stream_options", { stream: true, stream_options: "usage" }],
    ["tools.0", { tools: [1] }],
  ];
  it.each(odd)("are refused by name: %s", async (param, more) => {
    expect(await chat(gateway, "odd", hi, more)).toMatchObject({ status: 400, body: { error: { param } } });
  });
});

describe("GET /v1/models/{id}", () => {
  it("answers with one model as the list has it, and 404 in OpenAI's shape for another", async () => {
    const read = async (path: string): Promise<{ status: number; body: unknown }> => {
      const response = await fetch(gateway.httpUrl + path);
      return { status: response.status, body: await response.json() };
    };
    const list = (await read("/v1/models")).body as { data: unknown[] };
    expect(await read("/v1/models/job")).toEqual({ status: 200, body: list.data[0] });
    expect(await read("/s/x/v1/models/job")).toMatchObject({ status: 200, body: { id: "job", object: "model" } });
    expect(await read("/v1/models/other")).toMatchObject({
      status: 404,
      body: { error: { code: "model_not_found", param: "model", type: "invalid_request_error" } },
    });
    expect((await post(gateway, "/v1/models/job", {})).status).toBe(404);
  });
});

describe("the page", () => {
  it("lists each field under what becomes of it, and no other", () => {
    const page = readFileSync(join(ROOT, "docs/inference-engines.md"), "utf8");
    for (const kind of ["honoured", "ignored", "refused"] as const) {
      const row = page.split("\n").find((line) => line.startsWith(`| ${kind} |`));
      const listed = [...(row?.split(" | ")[1] ?? "").matchAll(/`([a-z_]+)`/g)].map(([, name]) => name);
      const ours = [...REQUEST_FIELDS].filter(([, rule]) => rule.kind === kind).map(([name]) => name);
      expect(listed.toSorted(), kind).toEqual(ours.toSorted());
    }
  });
});
