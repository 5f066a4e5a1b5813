// SPDX-License-Identifier: Apache-2.0
// I4 over whole conversations: what a chain of calls records is what the engine was sent and what it sampled.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { CallTree } from "@whetstone/proto/inference/v1/inference";
import { ForkReason } from "@whetstone/proto/types/v1/types";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ModelFolders } from "./codec/model-folder.ts";
import { FakeEngine } from "../test/fake-engine.ts";
import { assistant, calls, chat, TINY, post, python, serve, startGateway, tempFolder, user } from "../test/harness.ts";
import type { Gateway, Message, TempFolder } from "../test/harness.ts";

const END = 260;
const bytes = (text: string): number[] => [...Buffer.from(text)];

let folder: TempFolder;
let engine: FakeEngine;
let gateway: Gateway;

beforeAll(async () => {
  folder = tempFolder();
  const qwen = join(folder.path, "qwen");
  python([fileURLToPath(new URL("../test/make_fixtures.py", import.meta.url)), qwen]);
  engine = await FakeEngine.start();
  gateway = await startGateway();
  await serve(gateway, "e0", engine.url, TINY);
}, 120_000);

afterAll(async () => {
  await gateway.close();
  await engine.kill();
  folder[Symbol.dispose]();
});

/** Every id of a call's chain, from the root to the end of its completion. */
function chainIds(tree: CallTree, id: string): number[] {
  const call = tree.calls.find((one) => one.id === id);
  if (call === undefined) throw new Error(`no call ${id}`);
  const before = call.parentId === "" ? [] : chainIds(tree, call.parentId);
  return [...before, ...call.promptIds, ...call.completionIds];
}

/** What a model may sample: text, broken bytes, special tokens inside, an end token or a cut. */
const answerIds = fc.tuple(
  fc.array(fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(...bytes("né ok 🙂")), fc.constant(256)), {
    maxLength: 6,
  }),
  fc.boolean(),
);
const turns = fc.array(
  fc.record({ text: fc.string({ unit: "grapheme", maxLength: 8 }), answer: answerIds, back: fc.nat(6) }),
  {
    ...{ minLength: 1, maxLength: 7 },
  },
);

function addedToken(path: string, content: string): number {
  const { added_tokens } = JSON.parse(readFileSync(join(path, "tokenizer.json"), "utf8")) as {
    added_tokens: { id: number; content: string }[];
  };
  return added_tokens.find((token) => token.content === content)!.id;
}

let sessions = 0;

describe("exact continuation (I4)", () => {
  it("a chain's ids are what the engine was sent and sampled, over random trees of conversations", async () => {
    await fc.assert(
      fc.asyncProperty(turns, async (script) => {
        const session = `p${sessions++}`;
        const histories: Message[][] = [[]];
        const sent: number[][] = [];
        for (const {
          text,
          answer: [sampled, ended],
          back,
        } of script) {
          // An answer that is cut has at least one token: no engine samples none.
          const ids = ended ? [...sampled, END] : [...sampled, 65];
          engine.script = () => ids;
          const history = histories[Math.max(0, histories.length - 1 - back)]!;
          const messages = [...history, user(text)];
          const { status, body } = await chat(gateway, session, messages, { max_tokens: ids.length });
          expect(status).toBe(200);
          histories.push([...messages, body.choices[0]!.message]);
          sent.push([...engine.requests.at(-1)!.token_ids, ...ids]);
        }
        const tree = await calls(gateway, session, "?close=true");
        expect(tree.calls.map((call) => chainIds(tree, call.id))).toEqual(sent);
        for (const [i, call] of tree.calls.entries())
          expect(call.parentId === "" ? 0 : Number(call.parentId.slice(1))).toBeLessThanOrEqual(i);
      }),
      { numRuns: 60 },
    );
  });

  it("keeps a cut answer and lets the prompt end the turn", async () => {
    engine.script = () => bytes("ab");
    await chat(gateway, "cut", [user("x")], { max_tokens: 2 });
    await chat(gateway, "cut", [user("x"), assistant("ab"), user("y")], { max_tokens: 2 });
    const [first, second] = (await calls(gateway, "cut")).calls;
    expect(first).toMatchObject({ finishReason: "length", completionIds: bytes("ab") });
    expect(second).toMatchObject({ parentId: "c0", promptIds: [END, 256, ...bytes("y"), 257] });
  });

  it("tells a branch from a continuation and from a new root", async () => {
    engine.script = () => [...bytes("A"), END];
    const history = [user("x"), assistant("A")];
    await chat(gateway, "forks", [user("x")]);
    await chat(gateway, "forks", [...history, user("1")]);
    await chat(gateway, "forks", [...history, user("2")]);
    await chat(gateway, "forks", [user("x"), assistant("edited"), user("2")]);
    const tree = (await calls(gateway, "forks")).calls;
    expect(tree.map(({ parentId, forkReason }) => [parentId, forkReason])).toEqual([
      ["", ForkReason.UNSPECIFIED],
      ["c0", ForkReason.UNSPECIFIED],
      ["c0", ForkReason.BRANCH],
      ["", ForkReason.NO_PREFIX],
    ]);
    const metrics = await (await fetch(`${gateway.httpUrl}/metrics`)).text();
    expect(metrics).toMatch(/whetstone_gateway_forks_total\{reason="branch"[^}]*\} [1-9]/);
    expect(metrics).toMatch(/whetstone_gateway_forks_total\{reason="no_prefix"[^}]*\} [1-9]/);
  });

  it("gives equal samples of one prompt a continuation each", async () => {
    engine.script = () => [...bytes("A"), END];
    await Promise.all([chat(gateway, "twins", [user("x")]), chat(gateway, "twins", [user("x")])]);
    const next = [user("x"), assistant("A"), user("y")];
    await chat(gateway, "twins", next);
    await chat(gateway, "twins", next);
    const tree = (await calls(gateway, "twins")).calls;
    expect(
      tree
        .slice(2)
        .map(({ parentId }) => parentId)
        .toSorted(),
    ).toEqual(["c0", "c1"]);
    expect(tree.slice(2).every(({ forkReason }) => forkReason === ForkReason.UNSPECIFIED)).toBe(true);
  });

  it("starts a new root when the tools have changed", async () => {
    await serve(gateway, "e3", engine.url, join(folder.path, "qwen"), 1n, "thinker");
    engine.label = "thinker:1";
    engine.script = () => [2];
    const ask = (messages: Message[], name: string) =>
      post(gateway, "/s/tools/v1/chat/completions", { model: "thinker", messages, tools: [{ function: { name } }] });
    await ask([user("x")], "one");
    await ask([user("x"), assistant(""), user("y")], "two");
    await ask([user("x"), assistant(""), user("y")], "one");
    const tree = (await calls(gateway, "tools")).calls;
    expect(tree.map(({ parentId }) => parentId)).toEqual(["", "", "c0"]);
    engine.label = "job:1";
  });

  it("gives the request's own variables to the template", async () => {
    const qwen = join(folder.path, "qwen");
    await serve(gateway, "e4", engine.url, qwen, 1n, "thinker");
    engine.label = "thinker:1";
    engine.script = () => [2];
    const ask = (more: object) =>
      post(gateway, "/s/vars/v1/chat/completions", { model: "thinker", messages: [user("x")], ...more });
    await ask({});
    const plain = engine.requests.at(-1)?.token_ids ?? [];
    await ask({ chat_template_kwargs: { enable_thinking: false } });
    const without = engine.requests.at(-1)?.token_ids ?? [];
    expect(without.slice(0, plain.length)).toEqual(plain);
    expect(without[plain.length]).toBe(addedToken(qwen, "<think>"));
    engine.label = "job:1";
  });

  it("starts a new root when the template strips the thinking, and says so", async () => {
    const qwen = join(folder.path, "qwen");
    await serve(gateway, "e1", engine.url, qwen, 1n, "thinker");
    engine.label = "thinker:1";
    const ask = (messages: Message[]) => post(gateway, "/s/think/v1/chat/completions", { model: "thinker", messages });
    engine.script = (request) => [...request.token_ids.slice(0, 1), 2];
    await ask([user("x")]);
    const plain = await ask([user("x"), assistant(""), user("y")]);
    expect(plain.status).toBe(200);
    const [open, close] = [addedToken(qwen, "<think>"), addedToken(qwen, "</think>")];
    engine.script = () => [open, 70, close, 71, 2];
    const thought = (await ask([user("z")])).body.choices[0]!.message;
    expect(thought).toMatchObject({ content: "e", reasoning_content: "d" });
    await ask([user("z"), thought, user("more")]);
    const tree = (await calls(gateway, "think")).calls;
    expect(tree.map(({ parentId, forkReason }) => [parentId, forkReason])).toEqual([
      ["", ForkReason.UNSPECIFIED],
      ["c0", ForkReason.UNSPECIFIED],
      ["", ForkReason.NO_PREFIX],
      ["", ForkReason.NO_PREFIX],
    ]);
    engine.label = "job:1";
  });
});

describe("render", () => {
  const conversation = [user("2+2"), assistant("4"), user("3+3"), assistant("6")];

  it("turns a demonstration into one call an answer, masked for training", async () => {
    const response = await fetch(`${gateway.httpUrl}/s/demo/render`, {
      method: "POST",
      body: JSON.stringify({ model: "job", messages: conversation }),
    });
    const tree = (await response.json()) as { calls: Record<string, unknown>[] };
    const answered = (text: string, promptIds: number[]) => ({
      ...{ promptIds, completionIds: [...bytes(text), END], demonstrationMask: [1, 1], text },
    });
    expect(tree.calls).toMatchObject([
      { id: "c0", ...answered("4", [256, ...bytes("2+2"), 257]) },
      { id: "c1", parentId: "c0", ...answered("6", [256, ...bytes("3+3"), 257]) },
    ]);
    expect((await calls(gateway, "demo")).calls).toEqual([]);
  });

  it("trains an assistant's tool calls, and nothing of their results", async () => {
    const qwen = join(folder.path, "qwen");
    await serve(gateway, "e5", engine.url, qwen, 1n, "thinker");
    const call = { id: "t1", type: "function", function: { name: "add", arguments: '{"a": 2, "b": 3}' } };
    const messages = [
      user("2+3"),
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_call_id: "t1", content: "RESULT" },
      assistant("5"),
    ];
    const tools = [{ type: "function", function: { name: "add", parameters: { type: "object" } } }];
    const response = await post(gateway, "/s/demo/render", { model: "thinker", messages, tools });
    const rendered = (response.body as unknown as { calls: { text: string; promptIds: number[]; parentId?: string }[] })
      .calls;
    expect(rendered.map(({ text }) => text)).toEqual([
      '\n<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>',
      "5",
    ]);
    expect(rendered[1]?.parentId).toBe("c0");
    await using folders = new ModelFolders();
    const codec = await folders.load(qwen);
    const prompts = rendered.map(({ promptIds }) => codec.decode(promptIds));
    expect(prompts[0]).toContain('<tools>\n{"type": "function", "function": {"name": "add"');
    expect(prompts[1]).toContain("<tool_response>\nRESULT");
  });

  it("refuses tool calls that the template does not print", async () => {
    const call = { id: "t1", type: "function", function: { name: "add", arguments: "{}" } };
    const messages = [user("x"), { role: "assistant", content: "", tool_calls: [call] }];
    const response = await post(gateway, "/s/demo/render", { model: "job", messages });
    expect(response.status).toBe(400);
    expect(JSON.stringify(response.body)).toContain("messages.1.tool_calls: the model's chat template does not print");
  });

  it("leaves the line break after Qwen's end of turn to the next prompt", async () => {
    await serve(gateway, "e2", engine.url, join(folder.path, "qwen"), 1n, "thinker");
    const response = await post(gateway, "/s/demo/render", { model: "thinker", messages: conversation });
    const [first, second] = (
      response.body as unknown as { calls: { completionIds: number[]; promptIds: number[]; parentId?: string }[] }
    ).calls;
    expect(first?.completionIds.at(-1)).toBe(2);
    expect(second?.parentId).toBe("c0");
    expect(second?.promptIds[0]).not.toBe(2);
  });
});
