// SPDX-License-Identifier: Apache-2.0
// The edges of the HTTP interface and of FleetService: bad input, bounds, idempotency, models, sessions.
import { once } from "node:events";
import { connect } from "node:net";
import { fromJson } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { CallTreeSchema, EngineState } from "@whetstone/proto/inference/v1/inference";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { calls, chat, chatStream, eventually, TINY, post, serve, startGateway, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

const END = 260;
let engine: FakeEngine;
let gateway: Gateway;

beforeAll(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway({ maxSessions: 30, maxBodyBytes: 4096 });
  await serve(gateway, "e0", engine.url, TINY);
});
afterAll(async () => {
  await gateway.close();
  await engine.kill();
});

const hi = [user("hi")];

describe("bad requests", () => {
  const bad: [string, unknown, string, RegExp][] = [
    ["not JSON", "{", "body", /not JSON/],
    ["no object", "[]", "body", /JSON object/],
    ["no model", { messages: hi }, "model", /GET \/v1\/models/],
    ["no messages", { model: "job" }, "messages", /array/],
    ["empty messages", { model: "job", messages: [] }, "messages", /at least one/],
    ["no role", { model: "job", messages: [{ content: "x" }] }, "messages.0.role", /string/],
    [
      "an image",
      { model: "job", messages: [{ role: "user", content: [{ type: "image_url" }] }] },
      "messages.0.content.0",
      /nothing is fetched/,
    ],
    ["n", { model: "job", messages: hi, n: 65 }, "n", /between 1 and 64/],
    ["a choice without tools", { model: "job", messages: hi, tool_choice: "required" }, "tool_choice", /no tools/],
    ["stop strings", { model: "job", messages: hi, stop: ["a", ""] }, "stop.1", /1 to 256 characters/],
    ["temperature", { model: "job", messages: hi, temperature: 3 }, "temperature", /between 0 and 2/],
    ["top_p", { model: "job", messages: hi, top_p: 0 }, "top_p", /greater than 0/],
    ["max_tokens", { model: "job", messages: hi, max_tokens: 0 }, "max_tokens", /between 1/],
    [
      "a seed that JSON cannot carry",
      `{"model":"job","messages":[{"role":"user","content":"x"}],"seed":9007199254740993}`,
      "seed",
      /between 0/,
    ],
    [
      "variables that are none",
      { model: "job", messages: hi, chat_template_kwargs: [] },
      "chat_template_kwargs",
      /object/,
    ],
    [
      "a variable of a shape that templates do not take",
      { model: "job", messages: hi, chat_template_kwargs: { thinking: { budget: 1 } } },
      "chat_template_kwargs.thinking",
      /string, number, boolean or null/,
    ],
    [
      "a variable of the gateway's own",
      { model: "job", messages: hi, chat_template_kwargs: { add_generation_prompt: false } },
      "chat_template_kwargs.add_generation_prompt",
      /set by the gateway/,
    ],
    ["top_logprobs", { model: "job", messages: hi, logprobs: true, top_logprobs: 21 }, "top_logprobs", /20/],
  ];

  it.each(bad)("names the field and the reason: %s", async (_name, body, param, reason) => {
    const answer = await post(gateway, "/s/bad/v1/chat/completions", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ type: "invalid_request_error", param });
    expect(answer.body.error?.message).toMatch(reason);
  });

  it("says so when there is no body at all", async () => {
    const { port, hostname } = new URL(gateway.httpUrl);
    const socket = connect(Number(port), hostname);
    socket.write("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    const [answer] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 400 [^]*"type":"error".*the body is not JSON/);
  });

  it("tells of a large body as Anthropic's clients expect it", async () => {
    const message = { role: "user", content: "y".repeat(5000) };
    expect(await post(gateway, "/v1/messages", { model: "job", max_tokens: 1, messages: [message] })).toMatchObject({
      status: 413,
      body: { type: "error", error: { type: "request_too_large" } },
    });
  });

  it("keeps OpenAI's shape for unknown models, routes and large bodies", async () => {
    expect(await chat(gateway, "x", hi, { model: "other" })).toMatchObject({
      status: 404,
      body: { error: { code: "model_not_found", param: "model" } },
    });
    expect(await post(gateway, "/v1/embeddings", {})).toMatchObject({
      status: 404,
      body: { error: { code: "unknown_route" } },
    });
    const large = await chat(gateway, "x", [user("y".repeat(5000))]);
    expect(large).toMatchObject({ status: 413, body: { error: { code: "body_too_large" } } });
  });

  it("says when a prompt is longer than the model's context", async () => {
    engine.maxModelLen = 10;
    await serve(gateway, "e0", engine.url, TINY);
    expect(await chat(gateway, "x", [user("0123456789")])).toMatchObject({
      status: 400,
      body: { error: { code: "context_length_exceeded" } },
    });
    await chat(gateway, "x", [user("01234")]);
    expect(engine.requests.at(-1)?.sampling_params.max_tokens).toBe(3);
    engine.maxModelLen = 1024;
    await serve(gateway, "e0", engine.url, TINY);
  });
});

describe("answers", () => {
  it("carry log-probabilities and ids only when asked", async () => {
    const { body } = await chat(gateway, "lp", hi, { logprobs: true, top_logprobs: 2, return_token_ids: true });
    const [choice] = body.choices;
    expect(choice?.token_ids).toEqual([69, END]);
    expect(body.prompt_token_ids).toEqual([256, 104, 105, 257]);
    expect(choice?.logprobs?.content[0]).toMatchObject({
      token: "E",
      logprob: -69 / 1024,
      bytes: [69],
      top_logprobs: [{ token: "E" }, { token: "F" }],
    });
    const plain = await chat(gateway, "lp", hi);
    expect([plain.body.choices[0]?.logprobs, plain.body.prompt_token_ids, plain.body.choices[0]?.token_ids]).toEqual([
      null,
      undefined,
      undefined,
    ]);
  });

  it("list the policies as models", async () => {
    for (const prefix of ["", "/s/x"]) {
      const models = (await (await fetch(`${gateway.httpUrl}${prefix}/v1/models`)).json()) as { data: unknown[] };
      expect(models.data).toMatchObject([{ id: "job", object: "model", max_model_len: 1024 }]);
    }
    expect((await fetch(`${gateway.httpUrl}/healthz`)).status).toBe(200);
  });

  it("accept text parts, and a session's name with any character", async () => {
    const parts = [
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ];
    const path = `/s/${encodeURIComponent("job/g0/s1")}`;
    await post(gateway, `${path}/v1/chat/completions`, { model: "job", messages: parts });
    const tree = fromJson(CallTreeSchema, (await (await fetch(`${gateway.httpUrl}${path}/calls`)).json()) as never);
    expect(tree).toMatchObject({ session: "job/g0/s1", calls: [{ promptIds: [256, 97, 10, 98, 257] }] });
  });
});

describe("sessions", () => {
  it("are dropped by DELETE and by close=true", async () => {
    await chat(gateway, "d1", hi);
    await fetch(`${gateway.httpUrl}/s/d1`, { method: "DELETE" });
    expect((await calls(gateway, "d1")).calls).toEqual([]);
    await chat(gateway, "d2", hi);
    expect((await calls(gateway, "d2", "?close=true")).calls).toHaveLength(1);
    expect((await calls(gateway, "d2")).calls).toEqual([]);
  });

  it("are bounded in number and in idle time", async () => {
    await using small = await startGateway({ maxSessions: 2, sessionIdleMs: 100 });
    await serve(small, "e0", engine.url, TINY);
    await Promise.all(["a", "b"].map((name) => chat(small, name, hi)));
    expect(await chat(small, "c", hi)).toMatchObject({ status: 429, body: { error: { code: "too_many_sessions" } } });
    await new Promise((resolve) => setTimeout(resolve, 120));
    expect((await chat(small, "c", hi)).status).toBe(200);
  });
});

describe("idempotency", () => {
  const key = { headers: { "x-whetstone-idempotency-key": "k1" } };

  it("joins a repeated request to the running one, and replays the last", async () => {
    engine.hold = true;
    const before = engine.requests.length;
    const first = chat(gateway, "idem", hi, {}, key);
    await eventually(() => engine.running === 1);
    const second = chat(gateway, "idem", hi, {}, key);
    engine.release();
    const [a, b, c] = [await first, await second, await chat(gateway, "idem", hi, {}, key)];
    expect([b.body, c.body]).toEqual([a.body, a.body]);
    expect(engine.requests.length - before).toBe(1);
    expect((await calls(gateway, "idem")).calls).toHaveLength(1);
    expect(await chat(gateway, "idem", [user("other")], {}, key)).toMatchObject({
      status: 422,
      body: { error: { code: "idempotency_key_reused" } },
    });
  });

  it("makes a failed call again, and goes on while anybody waits", async () => {
    engine.faults = [{ kind: "status", status: 400 }];
    const again = { headers: { "x-whetstone-idempotency-key": "k2" } };
    expect((await chat(gateway, "idem", hi, {}, again)).status).toBe(400);
    expect((await chat(gateway, "idem", hi, {}, again)).status).toBe(200);
    engine.hold = true;
    const controller = new AbortController();
    const last = { "x-whetstone-idempotency-key": "k3" };
    const gone = chat(gateway, "idem", hi, {}, { headers: last, signal: controller.signal });
    gone.catch(() => undefined);
    await eventually(() => engine.running === 1);
    const stays = chat(gateway, "idem", hi, {}, { headers: last });
    await new Promise((resolve) => setTimeout(resolve, 50));
    controller.abort();
    await new Promise((resolve) => setTimeout(resolve, 50));
    engine.release();
    expect((await stays).status).toBe(200);
  });

  it("keeps the numbers of one session's roles apart", async () => {
    const as = (role: string) => ({ headers: { ...key.headers, "x-whetstone-role": role } });
    expect((await chat(gateway, "roles", hi, {}, as("solver"))).status).toBe(200);
    expect((await chat(gateway, "roles", [user("judge it")], {}, as("judge"))).status).toBe(200);
    expect((await calls(gateway, "roles")).calls.map(({ role }) => role)).toEqual(["solver", "judge"]);
  });

  it("counts equal requests without the key as two samples", async () => {
    await Promise.all([chat(gateway, "equal", hi), chat(gateway, "equal", hi)]);
    expect((await calls(gateway, "equal")).calls).toHaveLength(2);
  });
});

describe("streams", () => {
  it("answer an early error with its status", async () => {
    engine.faults = [{ kind: "status", status: 400 }];
    expect((await chat(gateway, "st", hi, { stream: true })).status).toBe(400);
  });

  it("send an empty answer as a stream too", async () => {
    engine.script = () => [END];
    const chunks = await chatStream(gateway, "st", hi);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("stop");
    engine.script = () => [65, END];
  });
});

describe("FleetService", () => {
  const policy = (more: object = {}) => ({
    policy: "job",
    policyVersion: 1n,
    label: "job:1",
    modelPath: TINY,
    ...more,
  });
  const unfence = (id: string, more: object) => gateway.fleet.unfenceEngine({ id, policy: policy(more) });

  it("starts engines fenced, repeats safely and refuses what it cannot use", async () => {
    const { engine: entry } = await gateway.fleet.registerEngine({ id: "e9", url: engine.url });
    expect(entry).toMatchObject({ id: "e9", state: EngineState.FENCED, inFlight: 0 });
    await serve(gateway, "e9", engine.url, TINY);
    expect((await gateway.fleet.registerEngine({ id: "e9", url: engine.url })).engine).toMatchObject({
      ...{ state: EngineState.SERVING, maxModelLen: 1024, policy: { label: "job:1" } },
    });
    const code = async (work: Promise<unknown>): Promise<string> =>
      work.then(
        () => "none",
        (error: unknown) => WhetstoneError.from(error).code,
      );
    expect(await code(unfence("e9", { modelPath: "/absent" }))).toBe("INVALID_ARGUMENT");
    // Weights that only trainer and engines see.
    expect(await code(unfence("e9", { modelPath: "/absent", tokenizerPath: TINY }))).toBe("none");
    expect(await code(unfence("e9", { tokenizerPath: "/absent" }))).toBe("INVALID_ARGUMENT");
    expect(await code(unfence("e9", { label: "job:2" }))).toBe("INVALID_ARGUMENT");
    expect(await code(unfence("absent", {}))).toBe("NOT_FOUND");
    expect(await code(gateway.fleet.drainEngine({ id: "e9" }))).toBe("FAILED_PRECONDITION");
    expect(await code(gateway.fleet.registerEngine({ id: "x", url: "ftp://x" }))).toBe("INVALID_ARGUMENT");
    await gateway.fleet.registerEngine({ id: "gone", url: "http://127.0.0.1:1" });
    expect(await code(unfence("gone", {}))).toBe("UNAVAILABLE");
  });

  it("forgets a policy with its sessions, and says so to its agents", async () => {
    await using own = await startGateway();
    await serve(own, "e0", engine.url, TINY);
    await chat(own, "a", hi);
    expect((await own.fleet.forgetPolicy({ policy: "job" })).sessions).toBe(1);
    expect(await chat(own, "a", hi)).toMatchObject({ status: 503, body: { error: { code: "policy_not_ready" } } });
    await serve(own, "e0", engine.url, TINY);
    expect((await chat(own, "a", hi)).status).toBe(200);
  });
});
