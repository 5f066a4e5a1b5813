// SPDX-License-Identifier: Apache-2.0
import type { TemplateMessage } from "../../completion/message.ts";

interface Probe {
  readonly messages: readonly TemplateMessage[];
  readonly tools?: unknown[];
}

const TOOL = {
  type: "function",
  function: {
    name: "look",
    description: 'Says what is "there", – ü.',
    parameters: {
      type: "object",
      properties: { place: { type: "string", enum: ["a", "b"] }, n: { type: "integer", default: 3 } },
      required: ["place"],
    },
  },
};
const call = (id: string, args: object) => ({ id, type: "function", function: { name: "look", arguments: args } });
const answer = (content: string): TemplateMessage => ({ role: "assistant", content });
const user = (content: string): TemplateMessage => ({ role: "user", content });
const system: TemplateMessage = { role: "system", content: " Be brief.\n" };

/** Conversations of each kind that templates tell apart; a compiled template must print them as an interpreted one does. */
export const PROBES: readonly Probe[] = [
  { messages: [user(" Go.\n")] },
  {
    messages: [system, user("Go."), answer("<think>\nHm.\n</think>\n\nFirst. "), user("And?"), answer(""), user("So?")],
  },
  { messages: [user("Go."), { ...answer("First."), reasoning_content: "Hm.\n" }, user("And?")] },
  { messages: [system, user("Look.")], tools: [TOOL, TOOL] },
  {
    messages: [
      ...[system, user("Look."), { ...answer(""), tool_calls: [call("call00001", { place: "a", n: 1.5, deep: [] })] }],
      { role: "tool", tool_call_id: "call00001", name: "look", content: "a lamp" },
      {
        ...answer("Hm."),
        reasoning_content: "A lamp.",
        tool_calls: [call("call00002", {}), call("call00003", { n: 2 })],
      },
      { role: "tool", tool_call_id: "call00002", name: "look", content: "a key" },
      { role: "tool", tool_call_id: "call00003", name: "look", content: "" },
      ...[answer("Found."), user("Thanks.")],
    ],
    tools: [TOOL],
  },
];
