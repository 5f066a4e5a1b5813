// SPDX-License-Identifier: Apache-2.0
// Which calls of a session are its rollout, where the client names no roles: a program asks for titles and summaries beside it,
// and sends sub-agents out.
import type { CallRecord } from "./call-record.ts";
import type { Topic } from "./topic.ts";

/** Calls, of which one or more were asked in the course of the same work. */
interface Calls {
  readonly topic: Topic;
  /** Indices of its first and last call. */
  readonly begins: number;
  ends: number;
  count: number;
}

/** Calls that go on from one another. */
interface Thread extends Calls {
  conversation: Calls | undefined;
}

/** Roles of the rollout itself, of what works beside it with tools or as it does, and of the rest. */
const ROLES = { own: "agent", working: "subagent", plain: "side" } as const;

/**
 * The roles of calls for which the client named none. The rollout is the first conversation that has tools; where none has, the
 * one with most calls.
 * @param calls  of one session, in their order of arrival
 */
export function rolesOf(calls: readonly CallRecord[]): ReadonlyMap<CallRecord, string> {
  const threads = threadsOf(calls);
  const conversations = joined([...new Set(threads.values())]);
  const own = conversations.find(hasTools) ?? conversations.toSorted((a, b) => b.count - a.count)[0];
  const roleOf = (one: Calls | undefined): string => {
    if (one === undefined || own === undefined || one === own) return ROLES.own;
    return hasTools(one) || isSame(one.topic, own.topic) ? ROLES.working : ROLES.plain;
  };
  return new Map([...threads].map(([call, { conversation }]) => [call, roleOf(conversation)]));
}

function threadsOf(calls: readonly CallRecord[]): Map<CallRecord, Thread> {
  const threads = new Map<CallRecord, Thread>();
  for (const call of calls) {
    const thread = threadOf(call, threads);
    if (thread === undefined) continue;
    thread.ends = call.index;
    thread.count++;
    threads.set(call, thread);
  }
  return threads;
}

/** Undefined: the call has a role of its own. */
function threadOf(
  { index, topic, parent, echoes }: CallRecord,
  threads: ReadonlyMap<CallRecord, Thread>,
): Thread | undefined {
  if (topic === undefined) return parent && threads.get(parent);
  const echoed = echoes && threads.get(echoes);
  if (echoed !== undefined && sharesTools(echoed.topic, topic)) return echoed;
  return { topic, begins: index, ends: index, count: 0, conversation: undefined };
}

/** Threads that take turns are one conversation; one that begins while another goes on is another agent. */
function joined(threads: readonly Thread[]): Calls[] {
  const all: Calls[] = [];
  for (const thread of threads) {
    const { topic, begins, ends, count } = thread;
    let conversation = all.find((one) => isSame(one.topic, topic) && one.ends < begins);
    if (conversation === undefined) {
      conversation = { topic, begins, ends, count: 0 };
      all.push(conversation);
    }
    conversation.ends = ends;
    conversation.count += count;
    thread.conversation = conversation;
  }
  return all;
}

function hasTools({ topic }: Calls): boolean {
  return topic.tools.length > 0;
}

/** Programs load and unload tools as they go; a summary of the same history is asked for without any. */
function sharesTools(a: Topic, b: Topic): boolean {
  return isSameList(a.tools, b.tools) || a.tools.some((name) => b.tools.includes(name));
}

/** Compaction keeps the instructions, instructions with the time in them keep the question. */
function isSame(a: Topic, b: Topic): boolean {
  return isSameList(a.tools, b.tools) && (a.system === b.system || a.question === b.question);
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
