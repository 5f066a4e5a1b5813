// SPDX-License-Identifier: Apache-2.0
// What a long message costs the others: it is refused before it is tokenised, or tokenised in a thread.
import { createHash } from "node:crypto";
import { connect } from "node:net";
import { once } from "node:events";
import { countTurns } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { buildCodec } from "./codec/codec-files.ts";
import { CodecThread } from "./codec/codec-thread.ts";
import { ModelCodec } from "./codec/model-codec.ts";
import { numbersOf } from "./codec/offloading-codec.ts";
import { ModelFolders } from "./codec/model-folder.ts";
import { FakeEngine } from "../test/fake-engine.ts";
import { assistant, calls, chat, post, serve, startGateway, TINY, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

let engine: FakeEngine;
let gateway: Gateway;

beforeEach(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await gateway.close();
  await engine.kill();
});

const ready = (maxModelLen: number): Promise<void> => {
  engine.maxModelLen = maxModelLen;
  return serve(gateway, "e0", engine.url, TINY);
};

describe("a message of 15 MB", () => {
  it("is refused by name before it is parsed, rendered or tokenised", async () => {
    await ready(32_768);
    const [render, encode] = [vi.spyOn(ModelCodec.prototype, "render"), vi.spyOn(ModelCodec.prototype, "encode")];
    const answer = await chat(gateway, "long", [user("word ".repeat(3_000_000))]);
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: "context_length_exceeded", type: "invalid_request_error", param: "body" } },
    });
    expect(answer.body.error?.message).toMatch(/15000\d+ characters .* 32768 tokens/);
    expect([render.mock.calls.length, encode.mock.calls.length]).toEqual([0, 0]);
  });

  it("is refused before it is tokenised when only its own policy's context is short", async () => {
    await ready(1024);
    const other = await FakeEngine.start();
    other.maxModelLen = 10_000_000;
    await serve(gateway, "e1", other.url, TINY, 1n, "wide");
    const [encode, thread] = [vi.spyOn(ModelCodec.prototype, "encode"), vi.spyOn(CodecThread.prototype, "run")];
    expect(await chat(gateway, "long", [user("y".repeat(20_000))])).toMatchObject({
      status: 400,
      body: { error: { code: "context_length_exceeded", param: "messages" } },
    });
    expect([...encode.mock.calls, ...thread.mock.calls.filter(([{ kind }]) => kind === "encode")]).toEqual([]);
    await other.kill();
  });
});

it("gives its engine back where a prompt is too long by its tokens", async () => {
  await gateway.close();
  gateway = await startGateway({ maxInFlightPerEngine: 2 });
  await ready(10);
  const complete = (tokens: number): Promise<{ status: number; body: { error?: { code: string } } }> =>
    post(gateway, "/v1/completions", { model: "job", prompt: Array(tokens).fill(65), max_tokens: 1 });
  for (let call = 0; call < 3; call++)
    expect(await complete(10)).toMatchObject({ status: 400, body: { error: { code: "context_length_exceeded" } } });
  expect(await complete(9)).toMatchObject({ status: 200 });
});

describe("a long prompt that fits", () => {
  it("is tokenised in a thread, to the same ids, while the main loop tokenises nothing", async () => {
    await ready(1_000_000);
    const text = "The quick brown fox. ".repeat(2_000);
    const codec = buildCodec(await filesOf(TINY));
    const expected = codec.encode(codec.render([{ ...user(text) }]));
    const encode = vi.spyOn(ModelCodec.prototype, "encode");
    expect((await chat(gateway, "long", [user(text)])).status).toBe(200);
    expect(encode.mock.calls).toEqual([]);
    expect(digestOf(engine.requests.at(-1)!.token_ids)).toBe(digestOf(expected));
  });

  it("continues from its exact ids, and its calls are numbered as they came", async () => {
    await ready(1_000_000);
    const text = "z".repeat(40_000);
    const first = chat(gateway, "turns", [user(text)]);
    const second = chat(gateway, "turns", [user("short")]);
    const [{ body }] = await Promise.all([first, second]);
    const answer = body.choices[0]!.message.content;
    await chat(gateway, "turns", [user(text), assistant(answer), user("more")]);
    const tree = await calls(gateway, "turns");
    const byId = new Map(tree.calls.map((call) => [call.id, call]));
    expect([byId.get("c0")?.promptIds.length, byId.get("c2")?.parentId]).toEqual([40_002, "c0"]);
  });

  it("has its ids copied a few at a time, so that others have their turns", async () => {
    const ids = new Uint32Array(1_000_000).map((_, i) => i);
    let numbers: number[] = [];
    expect(await countTurns(async () => (numbers = await numbersOf(ids)))).toBeGreaterThan(10);
    expect(digestOf(numbers)).toBe(digestOf(Array.from(ids)));
  });

  it("ends at its deadline while it waits for the thread", async () => {
    await ready(10_000_000);
    const header = { headers: { "x-whetstone-timeout-ms": "20" } };
    expect((await chat(gateway, "late", [user("q ".repeat(500_000))], {}, header)).status).toBe(504);
  });

  it("is rendered in a thread too, also when it is long by its many messages", async () => {
    await ready(1_000_000);
    const codec = await new ModelFolders().load(TINY);
    const odd = [{ role: "user", content: "x".repeat(300_000), tool_calls: [] }] as never;
    expect(codec.render(odd)).toBeInstanceOf(Promise);
    const many = Array.from({ length: 2_000 }, (_, i) => ({ ...user(String(i)) }));
    expect(await codec.render(many)).toBe(buildCodec(await filesOf(TINY)).render(many));
  });
});

describe("odd bodies", () => {
  it("nested thousands deep are refused, with 400", async () => {
    await ready(1024);
    const deep = "[".repeat(20_000) + "]".repeat(20_000);
    const body = `{"model":"job","messages":[{"role":"user","content":"x"}],"tools":[{"a":${deep}}]}`;
    expect(await post(gateway, "/v1/chat/completions", body)).toMatchObject({
      status: 400,
      body: { error: { param: "body" } },
    });
  });
});

describe("half-sent requests", () => {
  it.each([
    ["a body", "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"],
    ["a header", "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-a"],
  ])("are answered 408 and dropped: %s", async (_name, half) => {
    await using hasty = await startGateway({ receiveTimeoutMs: 300 });
    const socket = connect(Number(new URL(hasty.httpUrl).port), "127.0.0.1");
    socket.write(half);
    let answer = "";
    socket.on("data", (chunk) => (answer += String(chunk)));
    await once(socket, "close");
    expect(answer).toMatch(/^HTTP\/1.1 408 /);
    expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({
      error: { code: "request_timeout", type: "invalid_request_error" },
    });
  });

  it("do not end a call that only takes long to answer", async () => {
    await using hasty = await startGateway({ receiveTimeoutMs: 200 });
    await serve(hasty, "e0", engine.url, TINY);
    engine.hold = true;
    const held = chat(hasty, "slow", [user("x")]);
    await new Promise((resolve) => setTimeout(resolve, 700));
    engine.release();
    expect((await held).status).toBe(200);
  });

  it("find no place beyond the bound on connections", async () => {
    await using small = await startGateway({ maxConnections: 1 });
    const port = Number(new URL(small.httpUrl).port);
    const first = connect(port, "127.0.0.1");
    await once(first, "connect");
    const second = connect(port, "127.0.0.1");
    await once(second, "close");
    expect(first.destroyed).toBe(false);
    first.destroy();
  });
});

async function filesOf(folder: string): Promise<Parameters<typeof buildCodec>[0]> {
  const { readFile } = await import("node:fs/promises");
  const read = (name: string): Promise<string | undefined> =>
    readFile(`${folder}/${name}`, "utf8").catch(() => undefined);
  return {
    "tokenizer.json": await read("tokenizer.json"),
    "tokenizer_config.json": await read("tokenizer_config.json"),
    "chat_template.jinja": await read("chat_template.jinja"),
    "generation_config.json": await read("generation_config.json"),
  };
}

function digestOf(ids: readonly number[]): string {
  return createHash("sha256").update(Uint32Array.from(ids)).digest("hex");
}
