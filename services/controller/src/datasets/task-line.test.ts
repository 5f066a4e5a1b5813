// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { jsonFaultColumn } from "./json-column.ts";
import { parseTask } from "./task-line.ts";

const messageOf = (line: string): string => {
  try {
    parseTask(line, "tasks.jsonl:3");
  } catch (error) {
    return `${(error as Error).message} ${JSON.stringify((error as Error).cause) ?? ""}`;
  }
  throw new Error("it was taken");
};

describe("a line that is no task", () => {
  it.each<[string, string, RegExp]>([
    [
      "a line of /etc/passwd",
      "secret:x:0:0:secret:/secret:/bin/bash",
      /^tasks\.jsonl:3:1: not a task: the line is no JSON/,
    ],
    ["JSON that breaks off", '{"id": "secret", "payload": secret}', /^tasks\.jsonl:3:29: /],
    ["JSON and more", '{"id": "a"} secret', /^tasks\.jsonl:3:13: /],
    ["a text that does not end", '{"id": "secret', /^tasks\.jsonl:3:8: /],
    [
      "another object's field",
      '{"id": "a", "secret": 1}',
      /^tasks\.jsonl:3:13: not a task: a field .* it has id, payload/,
    ],
    [
      "a field of another type",
      '{"id": ["secret"]}',
      /^tasks\.jsonl:3: not a task: Task\.id has a value of another type/,
    ],
    [
      "a field of another type within",
      '{"demonstration": [{"role": {"secret": 1}}]}',
      /ChatMessage\.role has a value of another/,
    ],
    ["a list", '["secret"]', /^tasks\.jsonl:3:1: not a task: must be a JSON object/],
  ])("%s: says where, and quotes nothing", (_name, line, expected) => {
    expect(messageOf(line)).toMatch(expected);
    expect(messageOf(line)).not.toContain("secret");
  });

  it("is one that says what it is", () => {
    expect(parseTask('{"id": "a", "payload": {"n": 1}}', "f:1")).toMatchObject({ id: "a", payload: { n: 1 } });
  });
});

const JSON_TEXTS = [
  "1",
  "-0.5e+10",
  '"a\\u00e9\\n"',
  "[]",
  "{}",
  ' [1, {"a": [null, true]}, "b"] ',
  '{"a": {"b": {}}, "c": []}',
];
const BROKEN = ["", "01", "[1,]", '{"a" 1}', '{"a": 1,}', "{1: 2}", "nul", '"\t"', "[1}", "1 2", '{"a": }', "]", "'a'"];

it("agrees with JSON.parse on what is JSON, however it is cut", () => {
  for (const text of [
    ...JSON_TEXTS,
    ...BROKEN,
    ...JSON_TEXTS.flatMap((whole) => [...whole].map((_, i) => whole.slice(0, i))),
  ])
    expect([text, jsonFaultColumn(text) === undefined]).toEqual([text, isJson(text)]);
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
