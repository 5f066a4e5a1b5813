// SPDX-License-Identifier: Apache-2.0
// Somebody with a conversation of their own beside those who send nonsense.
import type { Script } from "../fake-engine.ts";
import { FIRST_MARK, idsOf } from "../templated-model.ts";

const FAMILY = "qwen3";
/** Words, thoughts, and calls that are whole, malformed and cut. */
const ANSWERS = [
  "yes",
  "<think>\nhm\n</think>\n\nno",
  '<tool_call>\n{"name": "forecast", "arguments": {"city": "Oslo"}}\n</tool_call>',
  '<tool_call>\n{"name": "forecast", "arguments": {"city"\n</tool_call>',
  '<tool_call>\n{"name": "forecast"',
  "a\n\nb END c ä🙂",
  "",
].map((text) => [...idsOf(FAMILY, text), FIRST_MARK]);

/** The same answer to the same ids, whoever asks. */
export const answerByIds: Script = ({ token_ids: ids }) =>
  ANSWERS[Math.abs(ids.reduce((sum, id) => (Math.imul(sum, 31) + id) | 0, 7)) % ANSWERS.length] as number[];

/** What is recorded of a conversation of so many turns: ids, log-probabilities, labels and who continues whom. */
export async function converse(url: string, session: string, turns: number): Promise<string> {
  const messages: object[] = [];
  for (let turn = 0; turn < turns; turn++) {
    messages.push({ role: "user", content: `turn ${turn} of a conversation, with "quotes" and ünïcode` });
    const body = JSON.stringify({ model: "job", messages, max_tokens: 64, seed: turn, stream: turn % 2 === 1 });
    const response = await fetch(`${url}/s/${session}/v1/chat/completions`, { method: "POST", body });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`turn ${turn}: HTTP ${response.status}: ${text}`);
    messages.push({ role: "assistant", content: turn % 2 === 1 ? streamed(text) : whole(text) });
  }
  const tree = await fetch(`${url}/s/${session}/calls?close=true`);
  const { calls } = (await tree.json()) as { calls: Record<string, unknown>[] };
  const kept = [
    "id",
    "parentId",
    "promptIds",
    "completionIds",
    "logprobs",
    "versionSpans",
    "forkReason",
    "finishReason",
    "text",
  ];
  return JSON.stringify(calls.map((call) => kept.map((name) => call[name] ?? null)));
}

/** How many calls the gateway believes to be at its engines: a place that was not given back is there for good. */
export async function callsAtEngines(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^whetstone_gateway_in_flight(?:\{.*\})? (\d+)$/m.exec(text)?.[1]);
}

function whole(text: string): string {
  const { choices } = JSON.parse(text) as { choices: { message: { content: string | null } }[] };
  return choices[0]?.message.content ?? "";
}

function streamed(text: string): string {
  const events = text.split("\n\n").filter((event) => event.startsWith("data: {"));
  const chunks = events.map((event) => JSON.parse(event.slice(6)) as { choices: { delta?: { content?: string } }[] });
  return chunks.map(({ choices }) => choices[0]?.delta?.content ?? "").join("");
}
