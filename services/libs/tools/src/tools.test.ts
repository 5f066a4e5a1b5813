// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sleep } from "@whetstone/core";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { EpisodeError } from "@whetstone/sdk";
import { calculator } from "./calculator.ts";
import { Corpus, CorpusCache } from "./corpus.ts";
import { searchTool } from "./search.ts";
import { defineTool, ToolError } from "./tool.ts";
import { toolCallFormatReward } from "./tool-call-reward.ts";
import { parseAnswer, parseToolCalls, renderTools } from "./tool-calls.ts";
import { ToolRegistry } from "./tool-registry.ts";

const call = (name: string, args: unknown, id = "c0") => ({
  id,
  name,
  argumentsJson: typeof args === "string" ? args : JSON.stringify(args),
});
const schema = (properties: object, required: string[] = []) => ({ type: "object", properties, required });
const waits = defineTool({
  name: "waits",
  description: "",
  parameters: schema({}),
  run: () => new Promise(() => undefined),
});

describe("a registry", () => {
  const echo = defineTool<{ text: string; times?: number }>({
    name: "echo",
    description: "Repeats.",
    parameters: {
      ...schema({ text: { type: "string" }, times: { type: "integer", minimum: 1 } }, ["text"]),
      additionalProperties: false,
    },
    run: ({ text, times = 1 }) => text.repeat(times),
  });
  const registry = new ToolRegistry([echo, waits, calculator]);

  it("runs a call whose arguments are valid", async () => {
    expect(await registry.run(call("echo", { text: "ab", times: 2 }))).toEqual({
      toolCallId: "c0",
      name: "echo",
      output: "abab",
      isError: false,
    });
  });

  it.each([
    [call("eko", {}), /there is no tool "eko"; there are: echo, waits, calculator/],
    [call("echo", "{text"), /not valid JSON/],
    [call("echo", "[1]"), /must be a JSON object/],
    [call("echo", {}), /arguments: .*required.*"text"|arguments:.*text/],
    [call("echo", { text: 1 }), /arguments\.text: .*type/i],
    [call("echo", { text: "a", times: 0 }), /arguments\.times: .*minimum|less than/i],
    [call("echo", { text: "a", more: 1 }), /more/],
    [{ ...call("", "x"), problem: "unreadable." }, /^Error: unreadable\.$/],
    [call("calculator", { expression: "1/0" }), /expression: division by zero/],
    [call("constructor", {}), /there is no tool/],
  ])("tells the model what is wrong: %j", async (wrong, message) => {
    const output = await registry.run(wrong);
    expect(output.isError).toBe(true);
    expect(output.output).toMatch(/^Error: /);
    expect(output.output).toMatch(message);
  });

  it("ends a call at its deadline, though the tool never does", async () => {
    const output = await registry.run(call("waits", {}), undefined, { timeoutMs: 40 });
    expect(output).toMatchObject({ isError: true, output: "Error: waits took longer than 40 ms." });
  });

  it("throws the caller's own abort", async () => {
    const stop = new AbortController();
    const running = registry.run(call("waits", {}), stop.signal);
    stop.abort(new Error("cancelled"));
    await expect(running).rejects.toThrow("cancelled");
  });

  it("runs the calls of a turn side by side and answers in their order", async () => {
    let active = 0;
    let most = 0;
    const slow = defineTool<{ ms: number }>({
      name: "slow",
      description: "",
      parameters: schema({ ms: { type: "number" } }),
      run: async ({ ms }, { signal }) => {
        most = Math.max(most, (active += 1));
        await sleep(ms, signal);
        active -= 1;
        return ms;
      },
    });
    const calls = [60, 20, 40].map((ms, i) => call("slow", { ms }, `c${i}`));
    const outputs = await new ToolRegistry([slow]).runAll(calls, undefined);
    expect(outputs.map(({ toolCallId, output }) => [toolCallId, output])).toEqual([
      ["c0", "60"],
      ["c1", "20"],
      ["c2", "40"],
    ]);
    expect(most).toBe(3);
  });

  it("bounds calls a turn and characters an output, and says so", async () => {
    const calls = Array.from({ length: 3 }, (_, i) => call("echo", { text: "x", times: 50 }, `c${i}`));
    const outputs = await registry.runAll(calls, undefined, { maxCalls: 2, maxOutputCharacters: 10 });
    expect(outputs[0]?.output).toBe(`${"x".repeat(10)}\n… (40 more characters left out)`);
    expect(outputs[2]?.isError).toBe(true);
  });

  it("a tool that breaks is no fault of the policy (I6)", async () => {
    const broken = defineTool({
      name: "broken",
      description: "",
      parameters: schema({ how: {} }),
      run: ({ how }) => {
        if (how === "model") throw new ToolError("ask for less");
        if (how === "grader") throw new EpisodeError("INFRASTRUCTURE", "the index is down");
        throw new TypeError("x is undefined");
      },
    });
    const tools = new ToolRegistry([broken]);
    expect((await tools.run(call("broken", { how: "model" }))).output).toBe("Error: ask for less");
    await expect(tools.run(call("broken", {}))).rejects.toMatchObject({
      failureClass: "ENVIRONMENT",
      message: expect.stringMatching(/x is undefined/) as string,
    });
    await expect(tools.run(call("broken", { how: "grader" }))).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
    });
  });

  it("shows values that are no text as JSON, and refuses two tools of one name", async () => {
    const pair = defineTool({ name: "pair", description: "", parameters: schema({}), run: () => ({ a: [1] }) });
    expect((await new ToolRegistry([pair]).run(call("pair", ""))).output).toBe('{"a":[1]}');
    expect(() => new ToolRegistry([pair, pair])).toThrow(/two tools are named pair/);
    expect(
      () =>
        new ToolRegistry([
          defineTool({ ...pair.spec.function, name: "a b", description: "", parameters: {}, run: () => 1 }),
        ]),
    ).toThrow(/tool name/);
  });
});

describe("calls in a text", () => {
  const one = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';

  it.each([
    ["none", "just text", [], "just text"],
    ["one", `I look. ${one}`, [["f", '{"a":1}']], "I look."],
    [
      "two",
      `${one}${one}`,
      [
        ["f", '{"a":1}'],
        ["f", '{"a":1}'],
      ],
      "",
    ],
    [
      "text between",
      `a${one}b${one}c`,
      [
        ["f", '{"a":1}'],
        ["f", '{"a":1}'],
      ],
      "abc",
    ],
    ["no arguments", '<tool_call>{"name":"f"}</tool_call>', [["f", "{}"]], ""],
    ["arguments as text", '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>', [["f", '{"a":1}']], ""],
    ["the last left open", '<tool_call>{"name":"f"}', [["f", "{}"]], ""],
    ["tags inside a string", '<tool_call>{"name":"f","arguments":{"a":"<b>"}}</tool_call>', [["f", '{"a":"<b>"}']], ""],
  ] as const)("%s", (_, text, calls, beside) => {
    const parsed = parseToolCalls(text);
    expect(parsed.calls.map(({ name, argumentsJson }) => [name, argumentsJson])).toEqual(calls);
    expect(parsed.calls.every(({ problem }) => problem === undefined)).toBe(true);
    expect(parsed.text).toBe(beside);
  });

  it.each([
    ["bad JSON", "<tool_call>{name: f}</tool_call>", /not valid JSON/],
    ["no name", '<tool_call>{"arguments":{}}</tool_call>', /"name" must be/],
    ["no object", "<tool_call>null</tool_call>", /"name" must be/],
    ["empty", "<tool_call></tool_call>", /not valid JSON/],
  ])("%s goes back to the model, and the good one beside it is kept", (_, bad, reason) => {
    const { calls } = parseToolCalls(`${bad}${one}`, { turn: 3 });
    expect(calls[0]?.problem).toMatch(reason);
    expect(calls[1]).toEqual({ id: "call_3_1", name: "f", argumentsJson: '{"a":1}' });
  });

  it("a call that was cut off is none", () => {
    const { calls } = parseToolCalls('<tool_call>{"name":"f"}', { cut: true });
    expect(calls[0]?.problem).toMatch(/cut off/);
  });

  it("what the model only thought of is not called", () => {
    expect(parseAnswer(`<think>${one}</think>no`)).toEqual({ thought: one, text: "no", calls: [] });
  });

  it("takes the server's calls as they are", () => {
    const toolCalls = [{ id: "x", name: "f", argumentsJson: "{" }];
    expect(parseAnswer("text", { toolCalls, reasoning: "hm" })).toEqual({
      thought: "hm",
      text: "text",
      calls: toolCalls,
    });
  });

  it("reads anything without throwing, in linear time", () => {
    const parts = fc.constantFrom(
      "<tool_call>",
      "</tool_call>",
      "<think>",
      "</think>",
      "{",
      "}",
      '"name"',
      ":",
      '"f"',
      "é",
    );
    fc.assert(fc.property(fc.array(parts), (all) => parseAnswer(all.join("")).calls.length <= 64));
    const before = process.cpuUsage();
    for (const part of ["<tool_call>", "<tool_call></tool_call>", "</tool_call>"]) parseToolCalls(part.repeat(20_000));
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000); // µs of CPU: the machine may be busy.
  });

  it("describes tools in Qwen's words", () => {
    const text = renderTools([calculator.spec]);
    expect(text).toContain('<tools>\n{"type":"function","function":{"name":"calculator"');
    expect(text).toContain('{"name": <function-name>, "arguments": <args-json-object>}');
    expect(renderTools([])).toBe("");
  });

  it("format reward: every call must be one that could run", async () => {
    const reward = toolCallFormatReward([calculator]);
    const good = '<tool_call>{"name":"calculator","arguments":{"expression":"1"}}</tool_call>';
    for (const [text, value] of [
      [good, 1],
      [good + good, 1],
      [good + one, 0],
      ["7", 0],
      ["<tool_call>x</tool_call>", 0],
    ] as const) {
      expect((await reward({}, text)).reward).toBe(value);
    }
  });
});

describe("calculator", () => {
  it.each([
    ["12 + 7", "19"],
    ["0.1 + 0.2", "0.3"],
    ["1/3", "0.333333333333"],
    ["2/4", "0.5"],
    ["-7/2", "-3.5"],
    ["2^100", "1267650600228229401496703205376"],
    ["sqrt(2)", "1.41421356237"],
    ["10% * 80", "8"],
    ["max(3, 4.5) * gcd(12, 18)", "27"],
    ["mod(-7, 3)", "2"],
    ["7!", "5040"],
    ["1/8192", "0.00012207031250".replace(/0$/, "")],
  ])("%s = %s", async (expression, value) => {
    expect(await calculator.run({ expression }, { signal: AbortSignal.timeout(1000) })).toBe(value);
  });

  it.each(["9^9^9", "(".repeat(500), "x + 1", "process.exit()", "", "1 2", "170!*170!*170!"])(
    "%s is an error for the model",
    (expression) => {
      expect(() => calculator.run({ expression }, { signal: AbortSignal.timeout(1000) })).toThrow(ToolError);
    },
  );
});

describe("search", () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-corpus-"));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const documents = [
    { id: "a", title: "Paris", text: "Paris is the capital of France." },
    { id: "b", title: "Lyon", text: "Lyon is a city in France." },
    { id: "c", text: `Bread ${"x".repeat(500)}` },
  ];
  const signal = AbortSignal.timeout(5000);

  it("finds documents by their words, best first, and shows their beginning", async () => {
    const search = searchTool(new Corpus(documents));
    const output = String(await search.run({ query: "capital of France" }, { signal }));
    expect(output).toMatch(/^\[Document 1\] \(ID: a, Score: \d+\.\d{3}\)\nParis\nParis is the capital/);
    expect(output).toContain("[Document 2] (ID: b");
    expect(await search.run({ query: "capital of France", top_k: 1 }, { signal })).not.toContain("Document 2");
    expect(String(await search.run({ query: "bread" }, { signal })).length).toBeLessThan(350);
    expect(await search.run({ query: "zebra" }, { signal })).toBe("No relevant documents found.");
  });

  it("reads a file once, again when it has changed, and names a broken line", async () => {
    const path = join(folder, "corpus.jsonl");
    const cache = new CorpusCache();
    writeFileSync(path, `${JSON.stringify(documents[0])}\n\n{"text":"no id"}\n`);
    const corpus = await cache.get(path);
    expect(corpus.size).toBe(2);
    expect(corpus.search("id", 5)[0]?.document.id).toBe("3");
    expect(await cache.get(path)).toBe(corpus);
    writeFileSync(path, '{"id":"a","text":"changed"}\n{"id":');
    utimesSync(path, 1, 1);
    await expect(cache.get(path)).rejects.toMatchObject({
      failureClass: "TASK",
      message: expect.stringMatching(/corpus\.jsonl, line 2/) as string,
    });
    await expect(cache.get(join(folder, "none"))).rejects.toMatchObject({ failureClass: "TASK" });
    expect(
      () =>
        new Corpus([
          { id: "a", text: "" },
          { id: "a", text: "" },
        ]),
    ).toThrow(/same id/);
  });
});
