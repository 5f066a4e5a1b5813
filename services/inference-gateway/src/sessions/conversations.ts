// SPDX-License-Identifier: Apache-2.0
// Which calls of a session are its rollout, where the client names no roles: a program asks for titles and summaries beside it,
// and sends sub-agents out.
import type { CallRecord } from "./session.ts";
import type { Topic } from "./topic.ts";

interface Conversation {
  readonly topic: Topic;
  calls: number;
}

/** Roles of the rollout itself, of conversations beside it that have tools, and of those that have none. */
const ROLES = { own: "agent", withTools: "subagent", plain: "side" } as const;

/**
 * The roles of calls for which the client named none. The rollout is the first conversation that has tools; where none has, the
 * one with most calls.
 * @param calls  of one session, in their order of arrival
 */
export function rolesOf(calls: readonly CallRecord[]): ReadonlyMap<CallRecord, string> {
  const all: Conversation[] = [];
  const found = new Map<CallRecord, Conversation>();
  for (const call of calls) {
    const conversation = conversationOf(call, all, found);
    if (conversation === undefined) continue;
    conversation.calls++;
    found.set(call, conversation);
  }
  const own = all.find(hasTools) ?? all.toSorted((a, b) => b.calls - a.calls)[0];
  const roleOf = (one: Conversation): string =>
    one === own ? ROLES.own : hasTools(one) ? ROLES.withTools : ROLES.plain;
  return new Map([...found].map(([call, conversation]) => [call, roleOf(conversation)]));
}

/** Undefined: the call has a role of its own. */
function conversationOf(
  { topic, parent, echoes }: CallRecord,
  all: Conversation[],
  found: ReadonlyMap<CallRecord, Conversation>,
): Conversation | undefined {
  if (topic === undefined) return parent && found.get(parent);
  const echoed = echoes && found.get(echoes);
  if (echoed !== undefined && sharesTools(echoed.topic, topic)) return echoed;
  const known = all.find((one) => isSame(one.topic, topic));
  if (known !== undefined) return known;
  const begun = { topic, calls: 0 };
  all.push(begun);
  return begun;
}

function hasTools({ topic }: Conversation): boolean {
  return topic.tools.length > 0;
}

/** Programs load and unload tools as they go; a summary of the same history is asked for without any. */
function sharesTools(a: Topic, b: Topic): boolean {
  return isSameList(a.tools, b.tools) || a.tools.some((name) => b.tools.includes(name));
}

/** Compaction keeps the instructions, instructions with the time in them keep the question; a sub-agent keeps neither. */
function isSame(a: Topic, b: Topic): boolean {
  return isSameList(a.tools, b.tools) && (a.system === b.system || a.question === b.question);
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
