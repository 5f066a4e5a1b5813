// SPDX-License-Identifier: Apache-2.0
// I4 over tool turns: an agent echoes calls in its own way, and the ids are those that the engine saw and produced.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallTree } from "@whetstone/proto/inference/v1/inference";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { calls, post, serve, startGateway } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";
import { FAMILIES, FIRST_MARK, idsOf, templatedModel } from "../test/templated-model.ts";

type Family = keyof typeof FAMILIES;

const TOOLS = [
  {
    type: "function",
    function: {
      name: "look",
      parameters: { type: "object", properties: { place: { type: "string" }, n: { type: "integer" } } },
    },
  },
];

let folder: string;
let engine: FakeEngine;
let gateway: Gateway;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-tool-turns-"));
  engine = await FakeEngine.start();
  engine.maxModelLen = 1 << 20;
  engine.ends.add(FIRST_MARK);
  gateway = await startGateway();
});

afterAll(async () => {
  await gateway.close();
  await engine.kill();
  rmSync(folder, { recursive: true, force: true });
});

interface Echo {
  role: string;
  content: string | null;
  reasoning_content?: string;
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[];
}

/** Serves a family on the engine, which answers what `say` writes. */
async function play(family: Family, say: (turn: number) => string): Promise<void> {
  engine.label = `${family}:1`;
  await serve(gateway, "e0", engine.url, templatedModel(folder, family), 1n, family);
  let turn = 0;
  engine.script = () => [...idsOf(family, say(turn++)), FIRST_MARK];
}

async function ask(family: Family, session: string, messages: object[], more: object = {}): Promise<Echo> {
  const body = { model: family, messages, tools: TOOLS, ...more };
  const answer = await post(gateway, `/s/${session}/v1/chat/completions`, body);
  expect(answer.body.error?.message).toBeUndefined();
  return answer.body.choices[0]?.message as unknown as Echo;
}

/** As SDKs do it: without thoughts, the arguments written anew, `content` in a form of their own. */
function echoed({ content, tool_calls: made }: Echo): object {
  const rewritten = made?.map(({ id, function: { name, arguments: args } }) => {
    const entries = Object.entries(JSON.parse(args) as object).toReversed();
    return {
      id,
      type: "function",
      function: { name, arguments: JSON.stringify(Object.fromEntries(entries), null, 1) },
    };
  });
  return {
    role: "assistant",
    content: content ?? "",
    refusal: null,
    annotations: [],
    ...(rewritten ? { tool_calls: rewritten } : {}),
  };
}

/** Of every call in order: the ids of its whole chain, and whether it continues the call before it. */
function chains(tree: CallTree): { ids: number[][]; parents: string[] } {
  const whole = new Map<string, number[]>();
  for (const { id, parentId, promptIds, completionIds } of tree.calls)
    whole.set(id, [...(whole.get(parentId) ?? []), ...promptIds, ...completionIds]);
  return { ids: [...whole.values()], parents: tree.calls.map(({ parentId }) => parentId) };
}

const HERMES = (turn: number) =>
  `Turn ${turn}.\n<tool_call>\n{"name":"look",  "arguments":{"place":"é<&>","n":${turn}}}\n</tool_call>`;
const SAID: Record<Family, (turn: number) => string> = {
  "qwen2.5": HERMES,
  qwen3: (turn) => `<think>\nwhere? ${turn}\n</think>\n\n${HERMES(turn)}`,
  "llama3.1": (turn) => `{"name": "look", "parameters": {"n":${turn},"place":"é"}}`,
};

describe("ten tool turns", () => {
  it.each(Object.keys(FAMILIES) as Family[])(
    "are one chain of the ids that the engine saw and sampled: %s",
    async (family) => {
      await play(family, SAID[family]);
      const from = engine.requests.length;
      const messages: object[] = [{ role: "user", content: "find it" }];
      for (let turn = 0; turn < 10; turn++) {
        const answer = await ask(family, `ten-${family}`, messages);
        expect(answer.tool_calls).toMatchObject([{ type: "function", function: { name: "look" } }]);
        messages.push(echoed(answer), {
          role: "tool",
          tool_call_id: answer.tool_calls?.[0]?.id,
          content: `nothing ${turn}`,
        });
      }
      const { ids, parents } = chains(await calls(gateway, `ten-${family}`));
      expect(parents).toEqual(["", ...Array.from({ length: 9 }, (_, i) => `c${i}`)]);
      const log = engine.requests
        .slice(from)
        .map(({ token_ids }, turn) => [...token_ids, ...idsOf(family, SAID[family](turn)), FIRST_MARK]);
      expect(ids).toEqual(log);
    },
  );

  it("hold the words of the conversation in the template's order", async () => {
    await play("qwen2.5", HERMES);
    const first = await ask("qwen2.5", "words", [{ role: "user", content: "q" }]);
    const result = { role: "tool", tool_call_id: first.tool_calls?.[0]?.id, content: "R" };
    await ask("qwen2.5", "words", [{ role: "user", content: "q" }, echoed(first), result]);
    const [, second] = (await calls(gateway, "words")).calls;
    expect(second?.promptIds).toEqual(
      idsOf("qwen2.5", "\n<|im_start|>user\n<tool_response>\nR\n</tool_response><|im_end|>\n<|im_start|>assistant\n"),
    );
  });
});

describe("an echo", () => {
  it("is told apart from an equal answer by the names of its calls", async () => {
    await play("qwen2.5", () => HERMES(0));
    const question = [{ role: "user", content: "q" }];
    const twins = [await ask("qwen2.5", "twins", question), await ask("qwen2.5", "twins", question)];
    for (const twin of twins) {
      const result = { role: "tool", tool_call_id: twin.tool_calls?.[0]?.id, content: "R" };
      await ask("qwen2.5", "twins", [...question, echoed(twin), result]);
    }
    expect(chains(await calls(gateway, "twins")).parents).toEqual(["", "", "c0", "c1"]);
  });

  it("with other arguments is another turn: a new root", async () => {
    await play("qwen2.5", HERMES);
    const question = [{ role: "user", content: "q" }];
    const first = await ask("qwen2.5", "edited", question);
    const edited = { id: "x", type: "function", function: { name: "look", arguments: '{"place":"elsewhere","n":0}' } };
    const echo = { ...(echoed(first) as Echo), tool_calls: [edited] };
    await ask("qwen2.5", "edited", [...question, echo, { role: "tool", tool_call_id: "x", content: "R" }]);
    expect(chains(await calls(gateway, "edited")).parents).toEqual(["", ""]);
  });

  it("goes on with parallel calls and their results", async () => {
    await play("qwen2.5", (turn) => (turn === 0 ? `${HERMES(1)}\n${HERMES(2).slice(8)}` : "Done."));
    const question = [{ role: "user", content: "q" }];
    const first = await ask("qwen2.5", "parallel", question);
    expect(first.tool_calls?.map(({ function: f }) => (JSON.parse(f.arguments) as { n: number }).n)).toEqual([1, 2]);
    const results = (first.tool_calls ?? []).map(({ id }) => ({ role: "tool", tool_call_id: id, content: id }));
    await ask("qwen2.5", "parallel", [...question, echoed(first), ...results]);
    expect(chains(await calls(gateway, "parallel")).parents).toEqual(["", "c0"]);
  });

  it("of thoughts that the template strips at the next question starts a new root", async () => {
    await play("qwen3", (turn) => `<think>\nhm ${turn}\n</think>\n\nFour`);
    const question = { role: "user", content: "2+2" };
    const first = await ask("qwen3", "stripped", [question]);
    expect(first).toMatchObject({ content: "Four", reasoning_content: "hm 0" });
    await ask("qwen3", "stripped", [question, echoed(first), { role: "user", content: "sure?" }]);
    expect(chains(await calls(gateway, "stripped")).parents).toEqual(["", ""]);
  });
});

describe("a malformed call", () => {
  it("goes to the agent as it is, and its error to the model, in one chain", async () => {
    const broken = '<tool_call>\n{"name": "look", "arguments": {"place": oops}}\n</tool_call>';
    await play("qwen2.5", (turn) => (turn === 0 ? broken : HERMES(turn)));
    const question = [{ role: "user", content: "q" }];
    const first = await ask("qwen2.5", "broken", question);
    const call = first.tool_calls?.[0];
    expect(() => JSON.parse(call?.function.arguments ?? "") as unknown).toThrow();
    const error = { role: "tool", tool_call_id: call?.id, content: "error: the arguments are no JSON" };
    const second = await ask("qwen2.5", "broken", [...question, { ...first, content: "" }, error]);
    expect(second.tool_calls?.length).toBe(1);
    const tree = await calls(gateway, "broken");
    expect(chains(tree).parents).toEqual(["", "c0"]);
    expect(tree.calls[0]?.text).toBe(broken);
    const metrics = await (await fetch(`${gateway.httpUrl}/metrics`)).text();
    expect(metrics).toMatch(/whetstone_gateway_tool_calls_total\{outcome="malformed"[^}]*\} 1/);
  });
});

describe("tool_choice", () => {
  it.each([
    ["required", '<tool_call>\n{"name": "', 'look", "arguments": {"n": 1}}\n</tool_call>'],
    [
      { type: "function", function: { name: "look" } },
      '<tool_call>\n{"name": "look", "arguments": ',
      '{"n": 1}}\n</tool_call>',
    ],
  ])("%j begins the call in the prompt, where it is never trained", async (choice, begun, sampled) => {
    await play("qwen2.5", () => sampled);
    const answer = await ask("qwen2.5", `choice-${JSON.stringify(choice).length}`, [{ role: "user", content: "q" }], {
      tool_choice: choice,
    });
    expect(answer.tool_calls).toMatchObject([{ function: { name: "look", arguments: '{"n":1}' } }]);
    const [call] = (await calls(gateway, `choice-${JSON.stringify(choice).length}`)).calls;
    const ids = idsOf("qwen2.5", begun);
    expect(call?.promptIds.slice(-ids.length)).toEqual(ids);
    expect(call?.completionIds).toEqual([...idsOf("qwen2.5", sampled), FIRST_MARK]);
  });

  it("none leaves the text as it was sampled", async () => {
    await play("qwen2.5", HERMES);
    const answer = await ask("qwen2.5", "none", [{ role: "user", content: "q" }], { tool_choice: "none" });
    expect(answer).toMatchObject({ content: HERMES(0) });
    expect(answer.tool_calls).toBeUndefined();
  });

  it("of a tool that there is none of is refused by its path", async () => {
    const body = {
      model: "qwen2.5",
      messages: [{ role: "user", content: "q" }],
      tools: TOOLS,
      tool_choice: { type: "function", function: { name: "f" } },
    };
    expect(await post(gateway, "/v1/chat/completions", body)).toMatchObject({
      status: 400,
      body: { error: { param: "tool_choice" } },
    });
  });
});

describe("a streamed answer", () => {
  it("brings thoughts, words and calls as they are known, the same as whole", async () => {
    await play("qwen3", SAID.qwen3);
    const body = { model: "qwen3", messages: [{ role: "user", content: "q" }], tools: TOOLS, stream: true };
    const response = await fetch(`${gateway.httpUrl}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    const events = (await response.text()).split("\n\n").filter((text) => text.startsWith("data: {"));
    type Delta = { content?: string; reasoning_content?: string; tool_calls?: { index: number; function: object }[] };
    type Chunk = { choices: { delta: Delta; finish_reason: string | null }[] };
    const choices = events.map((text) => (JSON.parse(text.slice(6)) as Chunk).choices[0]);
    const join = (field: "content" | "reasoning_content") =>
      choices.map((choice) => choice?.delta[field] ?? "").join("");
    expect([join("reasoning_content"), join("content")]).toEqual(["where? 0", "Turn 0."]);
    expect(choices.flatMap((choice) => choice?.delta.tool_calls ?? [])).toMatchObject([
      { index: 0, function: { name: "look" } },
    ]);
    expect(choices.at(-1)?.finish_reason).toBe("tool_calls");
  });

  it("comes n times over, each a call of its own", async () => {
    await play("qwen2.5", (turn) => `answer ${turn}`);
    const body = { model: "qwen2.5", messages: [{ role: "user", content: "q" }], n: 3 };
    const { body: whole } = await post(gateway, "/s/several/v1/chat/completions", body);
    expect(whole.choices.map(({ message }) => message.content).toSorted()).toEqual([
      "answer 0",
      "answer 1",
      "answer 2",
    ]);
    expect((await calls(gateway, "several")).calls.length).toBe(3);
  });
});
