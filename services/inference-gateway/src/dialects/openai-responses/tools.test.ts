// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { ApiError } from "../../completion/api-error.ts";
import type { EarlierAnswers } from "../../completion/earlier-answers.ts";
import { callItem, namedByClient } from "./answer.ts";
import { parseResponsesRequest } from "./parse.ts";

const NOTHING: EarlierAnswers = { answer: () => undefined, conversation: () => undefined };
const AGENTS = {
  type: "namespace",
  name: "agents",
  description: "Other agents.",
  tools: [{ type: "function", name: "wait", description: "Waits.", parameters: { type: "object" } }],
};

function parsed(tools: object[], more: object = {}) {
  return parseResponsesRequest({ model: "m", input: "hi", tools, ...more }, NOTHING);
}

function refusal(tools: object[], more: object = {}): unknown {
  try {
    return parsed(tools, more);
  } catch (error) {
    return error instanceof ApiError ? error.message : error;
  }
}

it("a function of a namespace has both names in the template, and its own ones for the client", () => {
  const request = parsed([{ type: "function", name: "wait" }, AGENTS]);
  const printed = { name: "agents__wait", description: "Other agents.\nWaits.", parameters: { type: "object" } };
  expect(request.tools).toEqual([
    { type: "function", function: { name: "wait", parameters: {} } },
    { type: "function", function: printed },
  ]);
  const call = { id: "c", name: "agents__wait", arguments: "{}", malformed: false };
  const item = callItem("r", namedByClient(request, call), 0);
  expect(item).toMatchObject({ name: "wait", namespace: "agents" });

  const input = [item, { type: "function_call_output", call_id: "c", output: "done" }];
  const [echoed] = parsed([AGENTS], { input }).messages;
  expect(echoed).toMatchObject({ tool_calls: [{ function: { name: "agents__wait" } }] });
});

it("tool_choice names a function of a namespace", () => {
  const choice = { type: "function", namespace: "agents", name: "wait" };
  expect(parsed([AGENTS], { tool_choice: choice }).toolChoice).toEqual({ name: "agents__wait" });
});

it.each([
  [[{ type: "web_search" }], "tools.0.type: web_search does not run here"],
  [[{ ...AGENTS, tools: [{ type: "custom", name: "x" }] }], "tools.0.tools.0.type: custom does not run here"],
  [[{ ...AGENTS, tools: undefined }], "tools.0.tools: must be an array"],
  [[{ ...AGENTS, name: 1 }], "tools.0.name: must be a string"],
  [[AGENTS, { type: "function", name: "agents__wait" }], "tools: two functions are called agents__wait"],
])("%j is refused", (tools, message) => {
  expect(refusal(tools)).toContain(message);
});
