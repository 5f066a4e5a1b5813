// SPDX-License-Identifier: Apache-2.0
// A gateway that is told to end: sessions go on to their end, new ones are sent elsewhere.
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { type Gateway, post, serve, startGateway, TINY } from "../test/harness.ts";

const BODY = { model: "job", messages: [{ role: "user", content: "hi" }], max_tokens: 4 };
let engine: FakeEngine;
let gateway: Gateway;

beforeEach(async () => {
  engine = await FakeEngine.start();
});
afterEach(async () => {
  await gateway.close();
  await engine.kill();
});

async function start(drainMs: number): Promise<void> {
  gateway = await startGateway({ drainMs });
  await serve(gateway, "e0", engine.url, TINY);
  expect(await post(gateway, "/s/known/v1/chat/completions", BODY)).toMatchObject({ status: 200 });
}

it("answers the sessions it has until they are closed, and no new ones", async () => {
  await start(30_000);
  const left = gateway.leave();
  expect((await fetch(`${gateway.httpUrl}/healthz`)).status).toBe(503);
  const refused = await post(gateway, "/s/new/v1/chat/completions", BODY);
  expect(refused).toMatchObject({ status: 503, body: { error: { code: "gateway_leaving" } } });
  expect(refused.headers.get("retry-after")).toBe("1");
  expect((await fetch(`${gateway.httpUrl}/s/other/key`, { method: "POST" })).status).toBe(503);
  expect(await post(gateway, "/s/known/v1/chat/completions", BODY)).toMatchObject({ status: 200 });
  const tree = (await (await fetch(`${gateway.httpUrl}/s/known/calls?close=true`)).json()) as { calls: unknown[] };
  expect(tree.calls).toHaveLength(2);
  await left;
  await expect(fetch(`${gateway.httpUrl}/healthz`)).rejects.toThrow();
});

it("waits for them no longer than it is told to", async () => {
  await start(201); // Half of it is no whole number.
  const from = performance.now();
  await gateway.leave();
  expect(performance.now() - from).toBeLessThan(5_000);
});
