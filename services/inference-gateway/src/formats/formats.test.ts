// SPDX-License-Identifier: Apache-2.0
// Each format on what its models write, whole and in all bits that a stream may cut it into.
import { describe, expect, it } from "vitest";
import { type Answer, answerOf } from "../completion/answer.ts";
import { AnswerScanner } from "./answer-scanner.ts";
import { FORMATS, formatOf } from "./index.ts";

const TOOLS = new Map<string, unknown>([
  ["add", { properties: { a: { type: "integer" }, b: { anyOf: [{ type: "integer" }] }, note: { type: "string" } } }],
  ["now", { properties: {} }],
]);

interface Options {
  readonly promptText?: string;
  readonly cut?: boolean;
  readonly parallelCalls?: boolean;
  readonly withTools?: boolean;
}

function read(name: string, bits: readonly string[], options: Options = {}): Answer {
  const { promptText = "", cut = false, parallelCalls = true, withTools = true } = options;
  const format = FORMATS.find((one) => one.name === name);
  if (format === undefined) throw new Error(`no format ${name}`);
  const tools = withTools ? TOOLS : undefined;
  const scanner = new AnswerScanner(format, { tools, parallelCalls, promptText, requestId: "r" });
  return answerOf([...bits.flatMap((bit) => scanner.push(bit)), ...scanner.end(cut)]);
}

/** The answer, which must be the same in two bits wherever they are cut, and character by character. */
function readAll(name: string, text: string, options: Options = {}): Answer {
  const whole = read(name, [text], options);
  expect(read(name, [...text], options), "character by character").toEqual(whole);
  for (let i = 1; i < text.length; i++) expect(read(name, [text.slice(0, i), text.slice(i)], options)).toEqual(whole);
  return whole;
}

const plainly = ({ content, reasoning, calls }: Answer) => [
  content,
  reasoning,
  ...calls.map(({ name, arguments: args, malformed }) => [name, malformed ? args : (JSON.parse(args) as unknown)]),
];
const ADD = ["add", { a: 1, b: 2 }];

describe("what models write", () => {
  const written = [
    ["hermes", 'Sure.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>', "Sure.", "", ADD],
    [
      ...[
        "hermes",
        '<think>\nhm\n</think>\n\n<tool_call>{"name":"add","arguments":{"a":1,"b":2}}</tool_call>\n<tool_call>{"name":"now","arguments":{}}</tool_call>',
      ],
      ...["", "hm", ADD, ["now", {}]],
    ],
    ["hermes", '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}', "", "", ADD],
    ["hermes", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}</tool_call>', "", "", ADD],
    ["hermes", "a < b <tool> \n ", "a < b <tool> \n ", ""],
    [
      ...[
        "qwen3_xml",
        "<think>t</think>\n<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n<parameter=note>\n\n7\n</parameter>\n</function>\n</tool_call>",
      ],
      ...["", "t", ["add", { a: 1, b: 2, note: "\n7" }]],
    ],
    ["qwen3_xml", "<function=add>\n<parameter=a>1</parameter>\n<parameter=b>2</parameter>\n</function>", "", "", ADD],
    ["qwen3_xml", "<tool_call><function=now></function></tool_call>", "", "", ["now", {}]],
    ["llama3_json", '{"name": "add", "parameters": {"a": 1, "b": 2}}', "", "", ADD],
    [
      "llama3_json",
      '<|python_tag|>{"name": "add", "parameters": {"a": 1, "b": 2}}; {"name": "now", "parameters": {}}',
      "",
      "",
      ADD,
      ["now", {}],
    ],
    ["llama3_json", '{"answer": 4}', '{"answer": 4}', ""],
    ["llama3_json", 'see {"name": "add"}', 'see {"name": "add"}', ""],
    ["pythonic", "[add(a=1, b=2), now()]", "", "", ADD, ["now", {}]],
    [
      "pythonic",
      `[add(a=-1.5e2, b=[1, 'x\\'"\\n', {"k": None}], note="é]")]`,
      "",
      "",
      ["add", { a: -150, b: [1, "x'\"\n", { k: null }], note: "é]" }],
    ],
    ["pythonic", "[1] says so", "[1] says so", ""],
    ["mistral", '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}[TOOL_CALLS]now[ARGS]{}', "", "", ADD, ["now", {}]],
    ["mistral", 'Hm.[TOOL_CALLS][{"name": "add", "arguments": {"a": 1, "b": 2}}]', "Hm.", "", ADD],
    ["mistral", "[THINK]so[/THINK]Four", "Four", "so"],
    [
      ...[
        "deepseek_v3",
        '<think>w</think>Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a": 1, "b": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      ],
      ...["Ok", "w", ADD],
    ],
    [
      ...[
        "deepseek_v31",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1, "b": 2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      ],
      ...["", "", ADD, ["now", {}]],
    ],
    [
      ...[
        "kimi_k2",
        '<think>k</think>Go<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1, "b": 2}<|tool_call_end|><|tool_calls_section_end|>',
      ],
      ...["Go", "k", ADD],
    ],
    [
      "glm45",
      "<think></think>\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
      "",
      "",
      ADD,
    ],
    ["glm45", "<tool_call>now</tool_call>", "", "", ["now", {}]],
    [
      ...[
        "minimax_m2",
        '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n<parameter name="b">2</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>',
      ],
      ...["", "", ADD, ["now", {}]],
    ],
    [
      ...[
        "harmony",
        '<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1, "b": 2}<|call|>',
      ],
      ...["", "think", ADD],
    ],
    [
      "harmony",
      '<|channel|>analysis<|message|>t<|end|><|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1, "b": 2}',
      "",
      "t",
      ADD,
    ],
    ["harmony", "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>Four", "Four", "t"],
    ["thinking", "<think>\nhm\n</think>\n\nFour ", "Four ", "hm"],
    ["plain", "  <think> <tool_call> ", "  <think> <tool_call> ", ""],
  ] as [format: string, text: string, ...unknown[]][];

  it.each(written)("%s: %s", (format, text, ...expected) => {
    expect(plainly(readAll(format, text))).toEqual(expected);
  });
});

describe("calls that are none", () => {
  const malformed: [format: string, text: string, name: string][] = [
    ["hermes", '<tool_call>{"name": "add", "arguments": {"a": 1,}}</tool_call>', "add"],
    ["hermes", '<tool_call>{"name": "add", "arguments": {"a": 1}</tool_call>', "add"],
    ["hermes", '<tool_call>{"name": "add", "arguments": [1]}</tool_call>', "add"],
    ["qwen3_xml", "<tool_call><function=add>a=1</function></tool_call>", "add"],
    ["pythonic", "[add(a=open)]", "add"],
    ["mistral", "[TOOL_CALLS]add[ARGS]{a}", "add"],
    ["deepseek_v3", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>add {}<｜tool▁call▁end｜>", "add"],
    ["deepseek_v31", "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{<｜tool▁call▁end｜>", "add"],
    ["kimi_k2", "<|tool_call_begin|>functions.add:0{}<|tool_call_end|>", "functions.add:0{}"],
    ["glm45", "<tool_call>add<arg_key>a</arg_key></tool_call>", "add"],
    ["minimax_m2", '<minimax:tool_call><invoke name="add">x</minimax:tool_call>', "add"],
    ["harmony", "<|channel|>commentary to=functions.add json<|message|>{oops<|call|>", "add"],
  ];

  it.each(malformed)(
    "come with the name and what the model wrote, where there is a name: %s %s",
    (format, text, name) => {
      const { calls, content } = readAll(format, text);
      if (calls.length === 0) expect(content).toContain(name);
      else expect(calls).toMatchObject([{ name, malformed: true }]);
    },
  );

  it.each([
    ["cut in the middle", '<tool_call>{"name": "add", "argu', { cut: true }],
    ["when there are no tools", '<tool_call>{"name": "add", "arguments": {}}</tool_call>', { withTools: false }],
    ["without a name", "<tool_call>what?</tool_call>", {}],
  ])("stay text: %s", (_what, text, options) => {
    expect(plainly(readAll("hermes", text, options))).toEqual([text, ""]);
  });
});

describe("reading", () => {
  it("begins inside the thoughts where the prompt ends there", () => {
    expect(
      plainly(readAll("hermes", "hm\n</think>\nFour", { promptText: "<|im_start|>assistant\n<think>\n" })),
    ).toEqual(["Four", "hm"]);
  });

  it("lets a call end the thoughts", () => {
    expect(plainly(readAll("hermes", '<think>hm <tool_call>{"name": "now", "arguments": {}}</tool_call>'))).toEqual([
      "",
      "hm",
      ["now", {}],
    ]);
  });

  it("keeps the first call only, where parallel calls are not wanted", () => {
    const text = '<tool_call>{"name":"now","arguments":{}}</tool_call>'.repeat(2);
    expect(read("hermes", [text], { parallelCalls: false }).calls.length).toBe(1);
    expect(new Set(read("hermes", [text]).calls.map(({ id }) => id)).size).toBe(2);
  });

  it("hands on words before the answer is whole", () => {
    const format = formatOf("<tool_call>");
    const scanner = new AnswerScanner(format, { tools: TOOLS, parallelCalls: true, promptText: "", requestId: "r" });
    expect(scanner.push("Let me <to")).toEqual([{ kind: "content", text: "Let me" }]);
    expect(scanner.push("day")).toEqual([{ kind: "content", text: " <today" }]);
  });

  it("keeps the names that Kimi's models and Mistral's templates insist on", () => {
    const kimi = read("kimi_k2", ["<|tool_call_begin|>functions.add:3<|tool_call_argument_begin|>{}<|tool_call_end|>"]);
    expect(kimi.calls[0]?.id).toBe("functions.add:3");
    expect(read("mistral", ["[TOOL_CALLS]now[ARGS]{}"]).calls[0]?.id).toMatch(/^[0-9a-f]{9}$/);
  });
});

describe("the format of a model", () => {
  it.each([
    ["harmony", "<|start|><|channel|>"],
    ["kimi_k2", "<|tool_calls_section_begin|>"],
    ["deepseek_v3", "<｜tool▁call▁begin｜> ```json"],
    ["deepseek_v31", "<｜tool▁call▁begin｜>"],
    ["glm45", "<tool_call> <arg_key>"],
    ["minimax_m2", "<minimax:tool_call>"],
    ["qwen3_xml", "<tool_call>\n<function=x>"],
    ["hermes", "<tool_call> </think>"],
    ["mistral", "[TOOL_CALLS]"],
    ["pythonic", "<|header_start|>"],
    ["llama3_json", '<|start_header_id|> "parameters"'],
    ["thinking", "</think>"],
    ["plain", "{{ content }}"],
  ])("is %s, as its template shows", (name, template) => {
    expect(formatOf(template).name).toBe(name);
    expect(formatOf("", name).name).toBe(name);
  });
});
