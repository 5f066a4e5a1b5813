// SPDX-License-Identifier: Apache-2.0
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { initModel, python, tempFolder, TINY } from "../../test/harness.ts";
import type { TempFolder } from "../../test/harness.ts";
import { type Reference, readReferences } from "../chat-check/against-transformers.ts";
import { parseMessages } from "../dialects/openai-chat/messages.ts";
import { ModelFolders } from "./model-folder.ts";

const FIXTURES = fileURLToPath(new URL("../../test/make_fixtures.py", import.meta.url));
let folder: TempFolder;
let expected: { qwen: Reference[]; tiny: Reference[] };
/** "tiny" is the model that the tool makes. */
const path = (name: string): string => join(folder.path, name === "tiny" ? "model" : name);

function referencesOf(name: string): Reference[] {
  const output = join(folder.path, `${name}.json`);
  python(["-m", "whetstone_models", "chat", path(name), "--output", output, "--count", "60"]);
  return readReferences(output);
}

beforeAll(() => {
  folder = tempFolder();
  initModel(folder);
  python([FIXTURES, path("qwen")]);
  expected = { qwen: referencesOf("qwen"), tiny: referencesOf("tiny") };
}, 120_000);

afterAll(() => {
  folder[Symbol.dispose]();
});

describe("ModelCodec", () => {
  it.each(["qwen", "tiny"] as const)("renders, encodes and decodes as transformers does: %s", async (name) => {
    const codec = await new ModelFolders().load(path(name));
    const plain = expected[name].filter(({ tools }) => tools === null);
    const asked = name === "qwen" ? expected.qwen : plain;
    expect(asked.length).toBeGreaterThan(30);
    for (const { messages, tools, text: expectedText, ids: expectedIds, decoded } of asked) {
      const text = await codec.render(parseMessages(messages), tools ?? undefined);
      expect(text).toBe(expectedText);
      const ids = await codec.encode(text);
      expect(ids).toEqual(expectedIds);
      expect(codec.decode(ids)).toBe(decoded);
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
    const asText = structuredClone(expected.qwen[0]!.messages) as unknown as {
      tool_calls?: { function: { arguments: unknown } }[];
    }[];
    for (const call of asText.flatMap((message) => message.tool_calls ?? [])) {
      call.function.arguments = JSON.stringify(call.function.arguments);
    }
    expect(codec.render(parseMessages(asText), expected.qwen[0]!.tools ?? undefined)).toBe(expected.qwen[0]?.text);
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
