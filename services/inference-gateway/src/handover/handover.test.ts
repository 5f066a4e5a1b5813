// SPDX-License-Identifier: Apache-2.0
// A gateway that leaves hands its sessions to another one, and nothing of them is lost or counted twice.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeEngine } from "../../test/fake-engine.ts";
import { calls, eventually, type Gateway, post, serve } from "../../test/harness.ts";
import { ownersOf, startReplicas } from "../../test/replicas.ts";
import { FIRST_MARK, idsOf, templatedModel } from "../../test/templated-model.ts";

const FAMILY = "qwen2.5";
/** Enough for all that follows; a replica that leaves passes requests with keys on for so long. */
const DRAIN_MS = 5_000;
const TOOLS = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }];
const said = (turn: number): string =>
  `Turn ${turn}.\n<tool_call>\n{"name":"look", "arguments":{"place":"é","n":${turn}}}\n</tool_call>`;

let folder: string;
let engine: FakeEngine;
let old: Gateway;
let peer: Gateway;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-handover-"));
  engine = await FakeEngine.start();
  engine.maxModelLen = 1 << 20;
  engine.ends.add(FIRST_MARK);
  let turn = 0;
  engine.script = () => [...idsOf(FAMILY, said(turn++)), FIRST_MARK];
  [old, peer] = (await startReplicas(2, { drainMs: DRAIN_MS })) as [Gateway, Gateway];
  await serveBoth(1n);
});
afterEach(async () => {
  await Promise.all([old.close(), peer.close()]);
  await engine.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function serveBoth(version: bigint): Promise<void> {
  engine.label = `job:${version}`;
  for (const gateway of [old, peer]) await serve(gateway, "e0", engine.url, templatedModel(folder, FAMILY), version);
}

interface Message {
  readonly role: string;
  readonly content: string | null;
  readonly tool_calls?: readonly { readonly id: string }[];
}

/** One turn of a loop with a tool, through that gateway; the messages of the next one. */
async function turn(at: Gateway, session: string, messages: readonly object[], headers = {}): Promise<object[]> {
  const body = { model: "job", messages, tools: TOOLS, max_tokens: 200 };
  const answer = await post(at, `/s/${session}/v1/chat/completions`, body, { headers });
  expect(answer.body.error?.message).toBeUndefined();
  const message = answer.body.choices[0]?.message as unknown as Message;
  const result = { role: "tool", tool_call_id: message.tool_calls?.[0]?.id, content: "nothing there" };
  return [...messages, message, result];
}

const FIRST = [{ role: "user", content: "find it" }];

it("a loop of six turns that moves after the third is one chain of the ids that the engine saw and sampled", async () => {
  let messages: object[] = FIRST;
  for (let i = 0; i < 3; i++) messages = await turn(old, "loop", messages);
  await serveBoth(2n);
  const left = old.leave();
  await eventually(async () => (await ownersOf("loop", [old, peer])).join() === "1");
  await left;
  for (let i = 3; i < 6; i++) messages = await turn(peer, "loop", messages, { "x-whetstone-begun": "true" });
  const tree = await calls(peer, "loop", "?close=true");
  expect(tree.calls.map(({ id, parentId }) => [id, parentId])).toEqual(
    ["c0", "c1", "c2", "c3", "c4", "c5"].map((id, i) => [id, i === 0 ? "" : `c${i - 1}`]),
  );
  let chain: number[] = [];
  for (const [i, call] of tree.calls.entries()) {
    chain = [...chain, ...call.promptIds];
    expect(engine.requests[i]?.token_ids).toEqual(chain);
    expect(call.completionIds).toEqual([...idsOf(FAMILY, said(i)), FIRST_MARK]);
    expect(call.logprobs).toHaveLength(call.completionIds.length);
    expect(call.versionSpans.map(({ policyVersion }) => policyVersion)).toEqual([i < 3 ? 1n : 2n]);
    chain = [...chain, ...call.completionIds];
  }
  expect(await ownersOf("loop", [peer])).toEqual([]);
});

it("a session with a call running goes when that has ended, and its next call is asked there", async () => {
  let messages = await turn(old, "busy", FIRST);
  engine.hold = true;
  const running = turn(old, "busy", messages);
  await eventually(() => engine.running === 1);
  const left = old.leave();
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await ownersOf("busy", [old, peer])).toEqual([0]);
  engine.release();
  messages = await running;
  await eventually(async () => (await ownersOf("busy", [old, peer])).join() === "1");
  await turn(peer, "busy", messages);
  expect((await calls(peer, "busy")).calls.map(({ parentId }) => parentId)).toEqual(["", "c0", "c1"]);
  await left;
});

it("a key opens its session at both, as long as the old one is there, and at the new one afterwards", async () => {
  const { key } = await old.openKey("keyed");
  const ask = async (url: string | undefined): Promise<number> => {
    const body = { model: "job", messages: FIRST, max_tokens: 200 };
    const headers = { authorization: `Bearer ${key}` };
    return (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) })).status;
  };
  expect(await ask(old.agentsUrl)).toBe(200);
  const left = old.leave();
  await eventually(async () => (await ownersOf("keyed", [old, peer])).join() === "1");
  for (const url of [old.agentsUrl, peer.agentsUrl, old.httpUrl, peer.httpUrl]) expect(await ask(url)).toBe(200);
  expect((await calls(old, "keyed")).calls).toHaveLength(5);
  await left;
  expect(await ask(peer.agentsUrl)).toBe(200);
  const tree = await calls(peer, "keyed", "?close=true");
  expect(tree.calls.map(({ id }) => id)).toEqual(["c0", "c1", "c2", "c3", "c4", "c5"]);
  // Its replica is gone: it might have taken the session with it.
  expect(await ask(peer.agentsUrl)).toBe(503);
}, 30_000);

it("takes along what the session is sampled with, its answers that are referred to, and those that may be asked for again", async () => {
  const terms = { sampling: { temperature: 0.5, max_tokens: 100 }, client_sampling: "override" };
  expect((await post(old, "/s/terms/key", terms)).status).toBe(201);
  const asked = { model: "job", input: "find it" };
  const first = await post(old, "/s/terms/v1/responses", asked);
  const repeat = { headers: { "x-whetstone-idempotency-key": "7" } };
  const chat = { model: "job", messages: FIRST, tools: TOOLS };
  const answered = await post(old, "/s/terms/v1/chat/completions", chat, repeat);
  const left = old.leave();
  await eventually(async () => (await ownersOf("terms", [old, peer])).join() === "1");
  const samples = engine.requests.length;
  expect((await post(peer, "/s/terms/v1/chat/completions", chat, repeat)).body).toEqual(answered.body);
  const other = await post(peer, "/s/terms/v1/chat/completions", { ...chat, tools: [] }, repeat);
  expect(other).toMatchObject({ status: 422, body: { error: { code: "idempotency_key_reused" } } });
  expect(engine.requests).toHaveLength(samples);
  const previous = (first.body as unknown as { id: string }).id;
  const next = { model: "job", input: "go on", previous_response_id: previous, temperature: 1 };
  const second = await post(peer, "/s/terms/v1/responses", next);
  expect(second.status).toBe(200);
  expect(second.headers.get("x-whetstone-overridden")).toBe("temperature");
  expect(engine.requests.at(-1)?.sampling_params.temperature).toBe(0.5);
  const tree = await calls(peer, "terms");
  expect(tree.calls.map(({ parentId }) => parentId)).toEqual(["", "", "c0"]);
  await left;
}, 30_000);

it("a session whose calls overlap goes, too: one that comes late waits for those that run, and is answered at the new one", async () => {
  await turn(old, "overlap", FIRST);
  engine.hold = true;
  const running = turn(old, "overlap", FIRST);
  await eventually(() => engine.running === 1);
  const left = old.leave();
  await new Promise((resolve) => setTimeout(resolve, DRAIN_MS / 2 + 200));
  const late = turn(old, "overlap", FIRST);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(engine.running).toBe(1);
  engine.release();
  await Promise.all([running, late]);
  expect((await calls(peer, "overlap")).calls.map(({ id }) => id)).toEqual(["c0", "c1", "c2"]);
  await left;
}, 30_000);

it("many sessions of which each plays on: none is lost, none counted twice", async () => {
  const names = Array.from({ length: 30 }, (_, i) => `many-${i}`);
  engine.script = () => [...idsOf(FAMILY, said(0)), FIRST_MARK];
  const play = async (name: string, begun: readonly object[]): Promise<void> => {
    let [messages, at] = [begun, old];
    for (let n = 1; n < 8; n++) {
      const headers = { "x-whetstone-begun": "true", "x-whetstone-idempotency-key": `${n}` };
      // Whoever loses its connection to the old one asks the new one for the same.
      messages = await turn(at, name, messages, headers).catch((error: unknown) => {
        if (!(error instanceof TypeError)) throw error;
        at = peer;
        return turn(at, name, messages, headers);
      });
    }
  };
  const begun = await Promise.all(names.map((name) => turn(old, name, FIRST)));
  const played = names.map((name, i) => play(name, begun[i] ?? []));
  await Promise.all([...played, old.leave()]);
  for (const name of names) {
    const tree = await calls(peer, name);
    // A call that its client lost leaves a gap in the names.
    expect(tree.calls).toHaveLength(8);
    for (const [n, call] of tree.calls.entries()) expect(call.parentId, name).toBe(tree.calls[n - 1]?.id ?? "");
  }
}, 60_000);
