// SPDX-License-Identifier: Apache-2.0
// Pictures in requests, with a stand-in for an engine that sees: no model that does runs on a test's machine.
import { fromBinary } from "@bufbuild/protobuf";
import { CallTreeSchema } from "@whetstone/proto/inference/v1/inference";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { messageKey } from "./completion/message.ts";
import { parseMessages } from "./dialects/openai-chat/messages.ts";
import { FakeEngine } from "../test/fake-engine.ts";
import { type Gateway, post, serve, startGateway, TINY } from "../test/harness.ts";

const PNG = Buffer.from("\u0089PNG\r\n\u001a\n", "latin1").toString("base64");
const URL = `data:image/png;base64,${PNG}`;
const image = { type: "image_url", image_url: { url: URL } };
const text = { type: "text", text: "What is it?" };

const chatOf = (content: unknown, role = "user") => ({ model: "job", messages: [{ role, content }] });
const anthropicOf = (content: unknown) => ({ model: "job", max_tokens: 9, messages: [{ role: "user", content }] });
const responsesOf = (content: unknown) => ({ model: "job", input: [{ role: "user", content }] });
const block = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };

const DIALECTS: [string, object, string][] = [
  ["/v1/chat/completions", chatOf([text, image]), "messages.0.content.1"],
  ["/v1/messages", anthropicOf([text, block]), "messages.0.content.1"],
  [
    "/v1/messages",
    anthropicOf([{ type: "tool_result", tool_use_id: "t", content: [text, block] }]),
    "messages.0.content.0.content.1",
  ],
  [
    "/v1/responses",
    responsesOf([
      { type: "input_text", text: "What is it?" },
      { type: "input_image", image_url: URL },
    ]),
    "input.0.content.1",
  ],
  [
    "/v1/responses",
    {
      model: "job",
      input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: URL }] }],
    },
    "input.0.output.0",
  ],
];

let engine: FakeEngine;
let gateway: Gateway;
beforeEach(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway();
});
afterEach(async () => {
  await gateway.close();
  await engine.kill();
});

async function started(takesImages: boolean) {
  engine.takesImages = takesImages;
  await serve(gateway, "e0", engine.url, TINY);
}

describe("an engine that takes no images", () => {
  it.each(DIALECTS)("%s is refused by the picture's path, in the dialect's words", async (path, body, at) => {
    await started(false);
    const answer = await post(gateway, path, body);
    expect([answer.status, answer.body.error?.message]).toEqual([400, `${at}: this engine takes no images`]);
    if (path !== "/v1/messages") expect(answer.body.error?.param).toBe(at);
    expect(engine.requests).toEqual([]);
  });

  it("beside one that does is enough to refuse: a call may go to either", async () => {
    await started(true);
    expect((await post(gateway, "/v1/chat/completions", chatOf([image]))).status).toBe(200);
    await using other = await FakeEngine.start();
    await serve(gateway, "e1", other.url, TINY);
    expect((await post(gateway, "/v1/chat/completions", chatOf([image]))).status).toBe(400);
  });
});

describe("an engine that takes images", () => {
  it.each(DIALECTS)("%s: is given the picture, and samples from what it made of it", async (path, body) => {
    await started(true);
    const answer = await post(gateway, `/s/a${path}`, body);
    expect(answer.status).toBe(200);
    expect(JSON.stringify(engine.rendered[0]?.messages)).toContain(JSON.stringify(image));
    expect(engine.requests).toMatchObject([
      { token_ids: [72, 105, 255], features: { mm_hashes: { image: ["picture 0"] } } },
    ]);
  });

  it("keeps the order of texts and pictures", async () => {
    await started(true);
    const content = [text, image, { type: "text", text: "And this?" }, image];
    await post(gateway, "/v1/chat/completions", chatOf(content));
    expect(engine.rendered[0]?.messages[0]?.content).toEqual(content);
  });

  it("records the call with the engine's ids, as one that nothing is trained on", async () => {
    await started(true);
    const { body } = await post(gateway, "/s/a/v1/chat/completions", chatOf([text, image]));
    const turns = [
      ...chatOf([text, image]).messages,
      { role: "assistant", content: body.choices[0]?.message.content },
      { role: "user", content: "Sure?" },
    ];
    await post(gateway, "/s/a/v1/chat/completions", { model: "job", messages: turns });
    const headers = { accept: "application/x-protobuf" };
    const tree = await fetch(`${gateway.httpUrl}/s/a/calls`, { headers });
    const { calls } = fromBinary(CallTreeSchema, new Uint8Array(await tree.arrayBuffer()));
    expect(calls).toMatchObject([
      { promptIds: [72, 105, 255], alteredBy: ["images"], parentId: "" },
      { promptIds: [72, 105, 255], alteredBy: ["images"], parentId: "" },
    ]);
  });

  it("tells apart turns whose pictures differ, and knows one that is shown again", () => {
    const asked = (data: string) =>
      parseMessages(chatOf([text, { type: "image_url", image_url: { url: data } }]).messages);
    const [one, again] = [asked(URL), asked(URL)].map(([message]) => messageKey(message!));
    const [gif] = asked(`data:image/gif;base64,${btoa("GIF8")}`);
    expect(again).toBe(one);
    expect(messageKey(gif!)).not.toBe(one);
    expect(messageKey({ role: "user", content: "What is it?" })).not.toBe(one);
  });

  it("streams, too, and may be long", async () => {
    await started(true);
    engine.maxModelLen = 64;
    await serve(gateway, "e0", engine.url, TINY);
    const large = Buffer.concat([Buffer.from(PNG, "base64"), Buffer.alloc(300_000)]).toString("base64");
    const shown = { type: "image_url", image_url: { url: `data:image/png;base64,${large}` } };
    const request = JSON.stringify({ ...chatOf([shown]), stream: true });
    const answer = await fetch(`${gateway.httpUrl}/v1/chat/completions`, { method: "POST", body: request });
    expect(await answer.text()).toMatch(/data: \[DONE\]\s*$/u);
  });

  it("that fails to render is told of, and the call may be tried again", async () => {
    await started(true);
    engine.takesImages = false; // 404 from now on
    const { status, body } = await post(gateway, "/v1/chat/completions", chatOf([image]));
    expect([status, body.error?.message]).toEqual([400, expect.stringMatching(/e0 cannot render the pictures/u)]);
    await engine.kill();
    expect((await post(gateway, "/v1/chat/completions", chatOf([image]))).status).toBe(503);
  });
});

describe("a picture that cannot be taken", () => {
  const url = (address: unknown) => [{ type: "image_url", image_url: { url: address } }];
  it.each([
    ["elsewhere", chatOf(url("https://example.com/a.png")), /nothing is fetched/u],
    ["of no address", chatOf([{ type: "image_url" }]), /nothing is fetched/u],
    [
      "of a type that models do not take",
      chatOf(url(`data:image/svg+xml;base64,${PNG}`)),
      /must be one of image\/png/u,
    ],
    ["of another type than it says", chatOf(url(`data:image/gif;base64,${PNG}`)), /is no image\/gif/u],
    ["that is no base64", chatOf(url("data:image/png;base64,!!")), /not base64/u],
    ["that is too large", chatOf(url(`data:image/png;base64,${"A".repeat(5_600_000)}`)), /more than 4194304 bytes/u],
  ])("%s is refused by its path", async (_what, request, message) => {
    await started(true);
    const { status, body } = await post(gateway, "/v1/chat/completions", request);
    expect([status, body.error?.param]).toEqual([400, "messages.0.content.0"]);
    expect(body.error?.message).toMatch(message);
  });

  it("of the model or the system is refused, and so is one of a conversation to train on", async () => {
    await started(true);
    for (const role of ["assistant", "system"])
      expect((await post(gateway, "/v1/chat/completions", chatOf([image], role))).status).toBe(400);
    const { status, body } = await post(gateway, "/s/a/render", chatOf([image]));
    expect([status, body.error?.message]).toEqual([400, "messages.0.content.0: nothing can be trained on images"]);
  });

  it("leaves no room for a forced call", async () => {
    await started(true);
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    const request = { ...chatOf([image]), tools, tool_choice: "required" };
    const { status, body } = await post(gateway, "/v1/chat/completions", request);
    expect([status, body.error?.param]).toEqual([400, "tool_choice"]);
  });
});
