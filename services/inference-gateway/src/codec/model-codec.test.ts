// SPDX-License-Identifier: Apache-2.0
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRng } from "@whetstone/core";
import type { Rng } from "@whetstone/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { initModel, python, tempFolder, TINY } from "../../test/harness.ts";
import type { TempFolder } from "../../test/harness.ts";
import { parseMessages } from "../dialects/openai-chat/messages.ts";
import { ModelFolders } from "./model-folder.ts";

interface Conversation {
  messages: Record<string, unknown>[];
  tools: unknown[] | null;
}

interface Expected {
  text: string;
  ids: number[];
  decoded: string;
}

const FIXTURES = fileURLToPath(new URL("../../test/make_fixtures.py", import.meta.url));
const WORDS = [
  "the",
  "quick",
  "answer",
  "don't",
  "123",
  "naïve",
  "日本語",
  "🙂",
  "\n",
  "  ",
  '{"a": 1}',
  "<|im_end|>",
  "</think>",
  "\tx",
  "é",
  "<|end|>",
  "'LL",
  "ǅ",
];
const TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { city: { type: "string", description: 'Ort – "ü"' } } },
  },
};

/** Random conversations: system prompts, thinking, tool calls and answers, odd characters and special tokens in text. */
function conversations(count: number): Conversation[] {
  const rng = createRng(5);
  return Array.from({ length: count }, (_, i) => ({
    messages: conversation(rng, i),
    tools: i % 3 === 0 ? [TOOL] : null,
  }));
}

function conversation(rng: Rng, index: number): Record<string, unknown>[] {
  const text = (): string =>
    Array.from({ length: 1 + rng.integer(8) }, () => rng.choice(WORDS)).join(rng.choice(["", " "]));
  const messages: Record<string, unknown>[] = index % 4 === 1 ? [{ role: "system", content: text() }] : [];
  for (let turn = rng.integer(4); turn >= 0; turn--) {
    messages.push({ role: "user", content: text() });
    if (index % 3 === 0) {
      const call = {
        id: "t1",
        type: "function",
        function: { name: "get_weather", arguments: { city: text(), days: rng.integer(9) } },
      };
      messages.push({ role: "assistant", content: null, tool_calls: [call] }, { role: "tool", content: text() });
    } else if (turn > 0)
      messages.push({ role: "assistant", content: `${rng.choice(["", "<think>\nhm\n</think>\n\n"])}${text()}` });
  }
  return messages;
}

let folder: TempFolder;
let all: Conversation[];
let expected: { qwen: Expected[]; tiny: Expected[] };
/** "tiny" is the model that the tool makes. */
const path = (name: string): string => join(folder.path, name === "tiny" ? "model" : name);

beforeAll(() => {
  folder = tempFolder();
  initModel(folder);
  all = conversations(60);
  expected = JSON.parse(python([FIXTURES, path("qwen"), path("model")], JSON.stringify(all))) as typeof expected;
}, 120_000);

afterAll(() => {
  folder[Symbol.dispose]();
});

describe("ModelCodec", () => {
  it.each(["qwen", "tiny"] as const)("renders, encodes and decodes as transformers does: %s", async (name) => {
    const codec = await new ModelFolders().load(path(name));
    const plain = all.filter(
      (c) => c.tools === null && c.messages.every((message) => message["tool_calls"] === undefined),
    );
    const asked = name === "qwen" ? all : plain;
    expect(asked.length).toBe(expected[name].length);
    expect(asked.length).toBeGreaterThan(30);
    for (const [i, { messages, tools }] of asked.entries()) {
      const text = await codec.render(parseMessages(messages), tools ?? undefined);
      expect(text).toBe(expected[name][i]?.text);
      const ids = await codec.encode(text);
      expect(ids).toEqual(expected[name][i]?.ids);
      expect(codec.decode(ids)).toBe(expected[name][i]?.decoded);
    }
  });

  it("hands the client's variables to the template, and keeps what it rendered with others apart", async () => {
    const codec = await new ModelFolders().load(path("qwen"));
    const messages = parseMessages([{ role: "user", content: "x" }]);
    const plain = await codec.render(messages);
    const without = codec.render(messages, undefined, { enable_thinking: false });
    expect(without).toBe(`${plain}<think>\n\n</think>\n\n`);
    expect(codec.render(messages, undefined, { enable_thinking: true })).toBe(plain);
    expect(codec.render(messages)).toBe(plain);
  });

  it("prints tool arguments that came as JSON text as it prints those that came parsed", async () => {
    const codec = await new ModelFolders().load(path("qwen"));
    const asText = structuredClone(all[0]!.messages) as { tool_calls?: { function: { arguments: unknown } }[] }[];
    for (const call of asText.flatMap((message) => message.tool_calls ?? [])) {
      call.function.arguments = JSON.stringify(call.function.arguments);
    }
    expect(codec.render(parseMessages(asText), all[0]!.tools ?? undefined)).toBe(expected.qwen[0]?.text);
  });

  it("finds out how a turn ends", async () => {
    const folders = new ModelFolders();
    expect((await folders.load(path("qwen"))).endOfTurn).toBe("<|im_end|>\n");
    expect((await folders.load(path("tiny"))).endOfTurn).toBe("<|end|>");
    expect([...(await folders.load(path("tiny"))).eosIds]).toEqual([260]);
  });

  it("shares what it loaded by content and refuses a folder by name", async () => {
    const folders = new ModelFolders();
    expect(await folders.load(path("tiny"))).toBe(await folders.load(path("tiny")));
    await expect(folders.load(path("absent"))).rejects.toThrow(/absent: tokenizer.json is missing/);
    const config = join(path("tiny"), "tokenizer_config.json");
    const good = readFileSync(config, "utf8");
    writeFileSync(config, JSON.stringify({ ...(JSON.parse(good) as object), chat_template: "{% if %}" }));
    await expect(folders.load(path("tiny"))).rejects.toThrow(/model: /);
    writeFileSync(config, good);
  });

  it("has the tiny model's files as its own tool makes them", () => {
    for (const name of ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]) {
      const [ours, made] = [join(TINY, name), join(path("model"), name)].map((file) => readFileSync(file, "utf8"));
      expect(JSON.parse(ours!), name).toEqual(JSON.parse(made!));
    }
  });

  it("gives ids beyond the vocabulary no text", async () => {
    const codec = await new ModelFolders().load(path("tiny"));
    expect(codec.decode([65, 5000, 66, 260])).toBe("AB");
    expect(codec.decode([])).toBe("");
    expect(codec.tokenText(260)).toBe("<|end|>");
  });
});
