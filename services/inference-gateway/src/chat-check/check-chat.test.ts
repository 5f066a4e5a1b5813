// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { python } from "../../test/harness.ts";
import { type FAMILIES, templatedModel } from "../../test/templated-model.ts";
import { ModelFolders } from "../codec/model-folder.ts";
import { compare, readReferences } from "./against-transformers.ts";
import { appendOnly } from "./append-only.ts";
import { checkChat } from "./check-chat.ts";

type Family = keyof typeof FAMILIES;

let parent: string;
beforeAll(() => {
  parent = mkdtempSync(join(tmpdir(), "whetstone-check-chat-"));
});
afterAll(() => {
  rmSync(parent, { recursive: true });
});

const APPENDS = { verdict: "append-only" };
const FORKS = { verdict: "forks", turn: 2 };
const ABSENT = { verdict: "not printed", reason: expect.any(String) as string };
const CALLS = { "tool calls": APPENDS, "parallel tool calls": APPENDS };
const NO_THOUGHTS = { "thoughts before words": ABSENT, "thoughts between tool calls": ABSENT };

describe("appendOnly", () => {
  it.each<[Family, object]>([
    ["qwen2.5", { words: APPENDS, ...CALLS, ...NO_THOUGHTS }],
    // An answer without thoughts has an empty block of them, which is left out once the next question is there.
    ["qwen3", { words: FORKS, ...CALLS, "thoughts before words": FORKS, "thoughts between tool calls": APPENDS }],
    ["llama3.1", { words: APPENDS, "tool calls": APPENDS, "parallel tool calls": ABSENT, ...NO_THOUGHTS }],
  ])("says which episodes of %s grow at their end only", async (family, expected) => {
    expect(await appendOnly(await ModelFolders.codecOf(templatedModel(parent, family)))).toEqual(expected);
  });
});

describe("checkChat", () => {
  it("compares with transformers, and tells the first places where text and ids part", async () => {
    const folder = templatedModel(mkdtempSync(join(parent, "model-")), "qwen3");
    const output = join(folder, "references.json");
    python(["-m", "whetstone_models", "chat", folder, "--output", output, "--count", "40"]);
    const { comparison } = await checkChat(folder, output);
    expect(comparison).toEqual({ alike: 40, refused: 0, notPrinted: 0, different: 0, differences: [] });

    const references = readReferences(output).map(({ text = "", ids = [], ...one }, i) =>
      i % 2 === 0 ? { ...one, text: `${text} `, ids } : { ...one, text, ids: [...ids, 7] },
    );
    const changed = compare(await ModelFolders.codecOf(folder), references);
    expect(changed).toMatchObject({ alike: 0, different: 40 });
    expect(changed.differences).toHaveLength(3);
    expect(changed.differences[0]).toMatch(/^conversation 0: text parts at \d+: ours "", of transformers " "$/);
    expect(changed.differences[1]).toMatch(/^conversation 1: ids parts at \d+: ours \[\], of transformers \[7\]$/);
    // Importing transformers on a busy machine.
  }, 180_000);
});
