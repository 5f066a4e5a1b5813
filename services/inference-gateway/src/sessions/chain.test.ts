// SPDX-License-Identifier: Apache-2.0
import { createRng } from "@whetstone/core";
import { expect, it } from "vitest";
import { messageKey, hasKey, type TemplateMessage } from "../completion/message.ts";
import { ChainLink } from "./chain.ts";
import { PromptIds } from "./prompt-ids.ts";

interface Known {
  readonly link: ChainLink;
  readonly ids: readonly number[];
  readonly text: string;
}

const jsonOf = (ids: PromptIds): unknown => JSON.parse(`[${Buffer.concat(ids.json()).toString()}]`);

it("of random trees has each call its own ids and text, whoever goes on from it, asked for in any order", () => {
  const rng = createRng(7);
  const upTo = (bound: number): number => Math.floor(rng.next() * bound);
  const someIds = (): number[] => Array.from({ length: upTo(5) }, () => upTo(200_000));
  for (let tree = 0; tree < 200; tree++) {
    const all: Known[] = [];
    for (let call = 0; call < 30; call++) {
      // Mostly the newest one goes on.
      const before = rng.next() < 0.6 ? all.at(-1) : all[upTo(all.length + 1)];
      const [promptIds, completionIds] = [someIds(), someIds()];
      // A prompt of ids has no text.
      const promptText = rng.next() < 0.1 ? "" : `${before?.text ?? ""}${upTo(1000)}`;
      const link = new ChainLink(before?.link, { promptText, promptIds, completionIds });
      all.push({ link, ids: [...(before?.ids ?? []), ...promptIds, ...completionIds], text: promptText });
      const { link: asked, ids } = all[upTo(all.length)] as Known;
      const fresh = someIds();
      const prompt = new PromptIds(asked, fresh);
      if (rng.next() < 0.5) expect(jsonOf(prompt)).toEqual([...ids, ...fresh]);
      expect(prompt.with([7]).all()).toEqual([...ids, ...fresh, 7]);
    }
    for (const { link, ids, text } of all) {
      expect(link.promptText).toBe(text);
      expect(link.ids()).toEqual(ids);
      expect(link.length).toBe(ids.length);
      expect(jsonOf(new PromptIds(link, []))).toEqual(ids);
    }
  }
});

const MESSAGES: readonly TemplateMessage[] = [
  { role: "user", content: "a" },
  { role: "user", content: "b" },
  { role: "user", content: "" },
  { role: "user", content: "a", name: "ann" },
  { role: "tool", content: "a", tool_call_id: "t1" },
  { role: "tool", content: "a", tool_call_id: "t2" },
  { role: "assistant", content: "a" },
  { role: "assistant", content: null, tool_calls: [{ function: { name: "f", arguments: {} } }] },
  { role: "assistant", content: null, tool_calls: [{ function: { name: "f", arguments: { x: 1 } } }] },
];

it("of a message is known by its key alone, and by no other message's", () => {
  for (const message of MESSAGES)
    for (const other of MESSAGES) expect(hasKey(message, messageKey(other))).toBe(message === other);
  const echo = { role: "assistant", content: " a\n", tool_call_id: "of the client's own", tool_calls: [] };
  expect(hasKey(echo, messageKey({ role: "assistant", content: "a" }))).toBe(true);
});
