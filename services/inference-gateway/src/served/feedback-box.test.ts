// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type AnsweredCall, FeedbackBox } from "./feedback-box.ts";

const answered = (text: string, serving = "bot"): AnsweredCall => ({
  serving,
  key: "web",
  weights: "newest",
  label: "serve.bot:1",
  conversation: [{ role: "user", content: text }],
  tools: undefined,
});
const HOUR = 3_600_000;

describe("FeedbackBox", () => {
  it("keeps what was said until it is stored, and tells no one twice", async () => {
    const box = new FeedbackBox("f-");
    box.keep("a", answered("hello"), 0);
    const said = [1, 2].map((reward) => box.say("bot", { id: "a", reward }, 1));
    expect(box.take([]).map(({ id }) => id)).toEqual(["f-0", "f-1"]);
    expect(box.take(["f-0"]).map(({ id }) => id)).toEqual(["f-1"]);
    await said[0];
    expect(box.take(["f-0", "f-1", "f-9"])).toEqual([]);
    await said[1];
  });

  it("forgets answers after an hour, beyond their number, and beyond their size", () => {
    const box = new FeedbackBox("f-");
    const isKnown = (id: string, nowMs: number): boolean => {
      try {
        void box.say("bot", { id, reward: 1 }, nowMs);
        return true;
      } catch {
        return false;
      }
    };
    box.keep("old", answered("hello"), 0);
    expect([isKnown("old", HOUR), isKnown("old", HOUR + 1)]).toEqual([true, false]);
    for (let index = 0; index < 10_001; index++) box.keep(`n${index}`, answered("hello"), HOUR);
    expect([isKnown("n0", HOUR), isKnown("n1", HOUR)]).toEqual([false, true]);
    for (const id of ["big1", "big2", "big3"]) box.keep(id, answered("x".repeat(30 * 2 ** 20)), HOUR);
    expect([isKnown("n10000", HOUR), isKnown("big1", HOUR), isKnown("big2", HOUR)]).toEqual([false, false, true]);
  });

  it("does not take what concerns another serving, or too much at once", () => {
    const box = new FeedbackBox("f-");
    box.keep("a", answered("hello", "other"), 0);
    box.keep("b", answered("hello"), 0);
    expect(() => box.say("bot", { id: "a", reward: 1 }, 0)).toThrow(/no answer "a"/);
    for (let index = 0; index < 1000; index++) void box.say("bot", { id: "b", reward: 1 }, 0);
    expect(() => box.say("bot", { id: "b", reward: 1 }, 0)).toThrow(/too much/);
    expect(box.take([])).toHaveLength(256);
  });
});
