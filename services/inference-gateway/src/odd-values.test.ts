// SPDX-License-Identifier: Apache-2.0
// Values of JSON that cannot become text where text is expected: `String({"toString": 1})` throws. Found by make fuzz-gateway.
import { afterAll, beforeAll, expect, it } from "vitest";
import { messageKey } from "./completion/message.ts";
import type { CallRecord } from "./sessions/call-record.ts";
import { Session } from "./sessions/session.ts";
import { FakeEngine } from "../test/fake-engine.ts";
import { type Gateway, post, serve, startGateway, TINY, user } from "../test/harness.ts";

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

const ODD = { toString: 1 };
const requests: [string, string, object, number][] = [
  ["a part's type", "/v1/responses", { input: [{ role: "user", content: [{ type: ODD, text: "x" }] }] }, 400],
  ["a reference", "/v1/responses", { input: [{ type: "item_reference", id: ODD }] }, 400],
  ["a tool's type", "/v1/responses", { input: "x", tools: [{ type: ODD, name: "f" }] }, 400],
  ["a tool's name", "/v1/chat/completions", { messages: [user("x")], tools: [{ function: { name: ODD } }] }, 200],
];

it.each(requests)("is no reason to fail: %s", async (_name, path, body, status) => {
  expect((await post(gateway, `/s/odd${path}`, { model: "job", ...body })).status).toBe(status);
});

it("is no reason to fail: the name of an echoed call, where two answers are the same", () => {
  const session = new Session("s", 0);
  const asked = { role: "user", content: "x" };
  const echo = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: ODD, function: { name: ODD, arguments: "{}" } }],
  };
  for (const index of [0, 1])
    session.add({ index, message: echo, children: 0 } as unknown as CallRecord, [asked], messageKey(echo));
  expect(session.tree.candidates([asked, echo, asked], 8)).toHaveLength(2);
});
