// SPDX-License-Identifier: Apache-2.0
// Is each prompt of an episode the one before, with more at its end? Where a template rewrites what stands before, the
// gateway must begin a chain anew (I4), and the trainer sees the episode as several sequences.
import type { ModelCodec } from "../codec/model-codec.ts";
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";
import { renderDemonstration } from "../sessions/demonstration.ts";

export type Verdict =
  | { readonly verdict: "append-only" }
  /** `turn` counts answers from 1: its prompt does not go on from the one before. */
  | { readonly verdict: "forks"; readonly turn: number }
  | { readonly verdict: "not printed"; readonly reason: string };

const user = (content: string): TemplateMessage => ({ role: "user", content });
const answer = (content: string): TemplateMessage => ({ role: "assistant", content });
const result = (id: string, content: string): TemplateMessage => ({ role: "tool", tool_call_id: id, content });
const thinking = (thoughts: string, message: TemplateMessage): TemplateMessage => ({
  ...message,
  reasoning_content: thoughts,
});

const TOOL = "look_around";
const TOOLS = [
  {
    type: "function",
    function: {
      name: TOOL,
      description: "Says what is there.",
      parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
    },
  },
];

/** Nine letters or digits: templates of Mistral insist on it. */
function calls(...ids: string[]): TemplateMessage {
  const call = (id: string) => ({
    ...{ id, type: "function" },
    function: { name: TOOL, arguments: { place: `room ${id}` } },
  });
  return { role: "assistant", content: "", tool_calls: ids.map(call) };
}

/** Episodes of three answers. `printed`: what must be found in the text, or the template does not know it. */
const EPISODES: Readonly<Record<string, { messages: readonly TemplateMessage[]; printed: string; tools?: true }>> = {
  words: {
    messages: [user("Go."), answer("First."), user("And?"), answer("Second."), user("So?"), answer("Third.")],
    printed: "First.",
  },
  "tool calls": {
    messages: [
      ...[user("Look."), calls("call00001"), result("call00001", "a lamp"), calls("call00002")],
      ...[result("call00002", "a key"), answer("Found.")],
    ],
    printed: TOOL,
    tools: true,
  },
  "parallel tool calls": {
    messages: [
      ...[user("Look."), calls("call00001", "call00002"), result("call00001", "a lamp"), result("call00002", "a key")],
      ...[answer("Found.")],
    ],
    printed: TOOL,
    tools: true,
  },
  "thoughts before words": {
    messages: [user("Go."), thinking("Hm, first.", answer("First.")), user("And?"), answer("Second.")],
    printed: "Hm, first.",
  },
  "thoughts between tool calls": {
    messages: [
      ...[user("Look."), thinking("Hm, a room.", calls("call00001")), result("call00001", "a lamp")],
      ...[thinking("Hm, a lamp.", calls("call00002")), result("call00002", "a key"), answer("Found.")],
    ],
    printed: "Hm, a room.",
    tools: true,
  },
};

/** By kind of episode. */
export async function appendOnly(codec: ModelCodec): Promise<Record<string, Verdict>> {
  const verdicts: Record<string, Verdict> = {};
  for (const kind of Object.keys(EPISODES)) verdicts[kind] = await verdictOn(codec, kind);
  return verdicts;
}

async function verdictOn(codec: ModelCodec, kind: string): Promise<Verdict> {
  const { messages, printed, tools } = EPISODES[kind] as (typeof EPISODES)[string];
  const conversation = { policy: "policy", messages, ...(tools ? { tools: TOOLS } : {}) };
  try {
    const sampled = await renderDemonstration(conversation, codec, 0, async () => undefined);
    if (!sampled.some(({ text }) => text.includes(printed))) {
      return { verdict: "not printed", reason: "the template leaves it out" };
    }
    const fork = sampled.findIndex(({ parent }, at) => at > 0 && parent !== sampled[at - 1]);
    return fork < 0 ? { verdict: "append-only" } : { verdict: "forks", turn: fork + 1 };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { verdict: "not printed", reason: "the template refuses it, or has no form for it" };
  }
}
