// SPDX-License-Identifier: Apache-2.0
// `stop`: the text ends before the string, the ids with the token that completes it, under their labels (I4, I5).
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StopFilter } from "./completion/stop-filter.ts";
import { FakeEngine } from "../test/fake-engine.ts";
import { calls, chat, chatStream, eventually, serve, startGateway, TINY, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

const END = 260;
const bytes = (text: string): number[] => [...Buffer.from(text)];

let engine: FakeEngine;
let gateway: Gateway;

beforeAll(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway();
  await serve(gateway, "e0", engine.url, TINY);
});
afterAll(async () => {
  await gateway.close();
  await engine.kill();
});

describe("a stop string", () => {
  it.each([false, true])("cuts the text before it and the ids after it, streamed: %s", async (streamed) => {
    engine.script = () => [...bytes("one\n\ntwo"), END];
    const session = `cut-${streamed}`;
    const text = streamed
      ? (await chatStream(gateway, session, [user("x")], { stop: ["\n\n"] }))
          .flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? ""))
          .join("")
      : (await chat(gateway, session, [user("x")], { stop: "\n\n" })).body.choices[0]?.message.content;
    expect(text).toBe("one");
    expect((await calls(gateway, session)).calls).toMatchObject([
      {
        completionIds: bytes("one\n\n"),
        finishReason: "stop",
        text: "one",
        versionSpans: [{ start: 0, end: 5 }],
        logprobs: { length: 5 },
      },
    ]);
  });

  it("ends the engine's work, and what was sampled keeps its label", async () => {
    engine.script = () => [...bytes("ab|"), ...bytes("c".repeat(50)), END];
    const asked = engine.aborted.length;
    engine.hold = true;
    engine.holdAfter = 4;
    const { body } = await chat(gateway, "early", [user("x")], { stop: "|" });
    engine.hold = false;
    expect(body.choices[0]).toMatchObject({ message: { content: "ab" }, finish_reason: "stop" });
    expect(engine.aborted.length).toBe(asked + 1);
    await eventually(() => engine.running === 0);
    expect((await calls(gateway, "early")).calls).toMatchObject([
      { completionIds: bytes("ab|"), versionSpans: [{ start: 0, end: 3 }] },
    ]);
  });

  it("that does not come changes nothing, and the conversation goes on from a cut answer", async () => {
    engine.script = () => [...bytes("one|two"), END];
    await chat(gateway, "on", [user("x")], { stop: "|" });
    await chat(gateway, "on", [user("x"), { role: "assistant", content: "one" }, user("y")], { stop: "never" });
    expect((await calls(gateway, "on")).calls).toMatchObject([
      { text: "one" },
      { parentId: "c0", text: "one|two", promptIds: [END, 256, ...bytes("y"), 257] },
    ]);
  });
});

describe("the filter", () => {
  it("gives what stands before the first string, however the text comes", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 12 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 3 }), {
      minLength: 1,
      maxLength: 3,
    });
    fc.assert(
      fc.property(letters, stops, fc.nat(12), (text, strings, at) => {
        const filter = new StopFilter(strings);
        const got = filter.push(text.slice(0, at)) + filter.push(text.slice(at)) + filter.end();
        const ends = strings.map((stop) => text.indexOf(stop)).filter((index) => index >= 0);
        // In two bits a string that begins later may be complete earlier.
        const first = strings.map((stop) => text.slice(0, at).indexOf(stop)).filter((index) => index >= 0);
        expect(got).toBe(text.slice(0, Math.min(text.length, ...(first.length > 0 ? first : ends))));
      }),
      { numRuns: 500 },
    );
  });
});
