// SPDX-License-Identifier: Apache-2.0
// Two replicas behind one name: an agent's request reaches its session at whichever of them it arrives.
import { freePort } from "@whetstone/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeEngine } from "../../test/fake-engine.ts";
import { type Gateway, serve, startGateway, TINY } from "../../test/harness.ts";

const BODY = { model: "job", messages: [{ role: "user", content: "hi" }], max_tokens: 8 };
let engine: FakeEngine;
let holder: Gateway;
let other: Gateway;

beforeEach(async () => {
  engine = await FakeEngine.start();
  const ports = [await freePort(), await freePort()];
  const peerUrl = ports.map((port) => `http://127.0.0.1:${port}`);
  const start = async (index: number): Promise<Gateway> => {
    const gateway = await startGateway({ agentPort: ports[index], peerUrl, ownUrl: peerUrl[index] });
    await serve(gateway, "e0", engine.url, TINY);
    return gateway;
  };
  [holder, other] = [await start(0), await start(1)];
});
afterEach(async () => {
  await Promise.all([holder.close(), other.close()]);
  await engine.kill();
});

function ask(key: string, more: object = {}, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${other.agentsUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, ...headers },
    body: JSON.stringify({ ...BODY, ...more }),
  });
}

const callsOf = async ({ httpUrl }: Gateway): Promise<number> =>
  ((await (await fetch(`${httpUrl}/s/mine/calls`)).json()) as { calls?: unknown[] }).calls?.length ?? 0;

it("answers through the replica that issued the key, whole and streamed, and records it there alone", async () => {
  const { key } = await holder.openKey("mine");
  expect(await (await ask(key)).json()).toMatchObject({ choices: [{ message: { role: "assistant" } }] });
  const streamed = await ask(key, { stream: true });
  expect(streamed.headers.get("content-type")).toContain("text/event-stream");
  expect(await streamed.text()).toMatch(/data: \[DONE\]\s*$/);
  const models = await fetch(`${other.agentsUrl}/v1/models`, { headers: { "x-api-key": key } });
  expect(await models.json()).toMatchObject({ data: [{ id: "job" }] });
  expect([await callsOf(holder), await callsOf(other)]).toEqual([2, 0]);
});

it("refuses keys that nobody issued, and passes nothing on twice", async () => {
  const { key } = await holder.openKey("mine");
  expect((await ask(`${key.slice(0, 12)}forged`)).status).toBe(401);
  expect((await ask("ws-00000000-unknown")).status).toBe(401);
  expect((await ask(key, {}, { "x-whetstone-relayed": "1" })).status).toBe(401);
  await fetch(`${holder.httpUrl}/s/mine`, { method: "DELETE" });
  expect((await ask(key)).status).toBe(401);
});

it("says so when the replica is gone", async () => {
  const { key } = await holder.openKey("mine");
  await holder.close();
  const answer = await ask(key);
  expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: "gateway_gone" } }]);
});
