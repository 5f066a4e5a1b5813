// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ActionSpace } from "./action-space.ts";
import { ACTION_SUBSETS } from "./action.ts";
import { type Call, parseCalls } from "./calls.ts";

const GOLDEN = join(import.meta.dirname, "../../test-support/calls.golden.jsonl");
const cases = readFileSync(GOLDEN, "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as { readonly text: string; readonly calls: readonly Call[] });

describe("actions as calls", () => {
  it.each(cases)("$text is read as BrowserGym's own parser reads it", ({ text, calls }) => {
    expect(parseCalls(text)).toEqual(calls);
  });

  it("whatever text it is, reading it ends, and what was quoted is given back", () => {
    fc.assert(fc.property(fc.string({ maxLength: 300 }), (text) => Array.isArray(parseCalls(text))));
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 50 }), (value) => {
        const quoted = `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\n", "\\n").replaceAll("\r", "\\r")}'`;
        expect(parseCalls(`fill(${quoted})`)[0]?.positional).toEqual([value]);
      }),
    );
  });

  const space = new ActionSpace(ACTION_SUBSETS);

  it.each([
    ["", "ValueError", "Received an empty action."],
    ["click('1') click('2')", "ValueError", "only single-actions are allowed"],
    ["jump('1')", "NameError", "Invalid action type 'jump'."],
  ])("%j is refused in BrowserGym's words", (text, name, message) => {
    expect(() => space.parse(text)).toThrow(
      expect.objectContaining({ name, message: expect.stringContaining(message) as string }),
    );
  });

  it.each([
    ["click()", "TypeError", "missing a required argument: 'bid'"],
    ["click('1', size=2)", "TypeError", "unexpected keyword argument 'size'"],
    ["click('1', 'left', [], 4)", "TypeError", "takes 3 arguments but 4 were given"],
    ["click('1', bid='2')", "TypeError", "multiple values for argument 'bid'"],
    ["click(12)", "ValueError", "bid must be str, not 12"],
    ["click('1', 'top')", "ValueError", "button must be"],
    ["tab_focus(1.5)", "ValueError", "index must be int"],
  ])("%s cannot be done, and says why", async (text, name, message) => {
    const [call] = space.parse(text);
    const done = space.perform(call as Call, {} as never);
    await expect(done).rejects.toMatchObject({ name, message: expect.stringContaining(message) as string });
  });

  it("offers the same as text and as tools", () => {
    const named = [...space.describe().matchAll(/^(\w+)\(/gmu)].map(([, name]) => name);
    expect(space.tools.map((tool) => tool.function.name)).toEqual(named);
    expect(new ActionSpace(["chat"]).tools.map((tool) => tool.function.name)).toEqual(["noop", "send_msg_to_user"]);
  });
});
