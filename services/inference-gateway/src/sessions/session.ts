// SPDX-License-Identifier: Apache-2.0
import { RememberedAnswers } from "../completion/earlier-answers.ts";
import { hasKey, messageKey } from "../completion/message.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { SamplingTerms } from "../completion/client-sampling.ts";
import type { SamplingAsked } from "../completion/request.ts";
import type { TokenSpan } from "../completion/token-span.ts";
import type { ChainLink } from "./chain.ts";
import type { Topic } from "./topic.ts";

export type ForkReason = "none" | "no_prefix" | "branch";

/** One answered model call. Its ids are those that the engine saw and produced (I4). */
export interface CallRecord {
  /** Order of arrival in the session, from 0. */
  readonly index: number;
  readonly policy: string;
  readonly parent: CallRecord | undefined;
  /** Its prompt, with which the next turn must begin, and all ids through its answer. */
  readonly link: ChainLink;
  /** With a parent: the ids after its prompt and completion. Without: the whole prompt. */
  readonly promptIds: readonly number[];
  readonly completionIds: readonly number[];
  readonly logprobs: readonly number[];
  /** The ids that truncated sampling kept for each token. Empty: nothing was truncated, or the engine does not tell. */
  readonly supports: readonly (readonly number[])[];
  readonly spans: readonly TokenSpan[];
  readonly finishReason: string;
  readonly sampling: SamplingAsked;
  /** See ModelCall. */
  readonly alteredBy: readonly string[];
  /** As the client named it; undefined: see rolesOf. */
  readonly role: string | undefined;
  /** Of a call without role and parent. */
  readonly topic: Topic | undefined;
  /** The latest call whose answer its messages repeat: its parent, or one whose ids the template did not let it go on from. */
  readonly echoes: CallRecord | undefined;
  /** What the model wrote, with its marks of thoughts and calls. */
  readonly text: string;
  /** How many messages it was asked with: its answer stands at this place of a conversation that goes on from it. */
  readonly position: number;
  /** The answer as the template's message, thoughts included: clients seldom echo those. */
  readonly message: TemplateMessage;
  readonly forkReason: ForkReason;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly resubmissions: number;
  readonly cachedTokens: number;
  /** Demonstrations only, see ModelCall. Empty: sampled. */
  readonly demonstrationMask: readonly number[];
  /** Calls that continue this one, running ones included. */
  children: number;
}

/** A node of the message tree: `answers` are the calls whose own answer is this node's message. */
interface MessageNode {
  readonly children: Map<string, MessageNode>;
  /** The child that was reached last: a conversation that goes on passes here again. */
  latest: { readonly key: string; readonly node: MessageNode } | undefined;
  readonly answers: CallRecord[];
}

/** The calls that share one name, as a tree over their messages. */
export class Session {
  readonly name: string;
  readonly calls: CallRecord[] = [];
  readonly earlier = new RememberedAnswers();
  readonly #root: MessageNode = newNode();
  /** Where the answer of each call stands. */
  readonly #nodes = new WeakMap<CallRecord, MessageNode>();
  /** The policies it used; ForgetPolicy drops it by them. */
  readonly policies = new Set<string>();
  /** Calls running now; such a session is never idle. */
  running = 0;
  lastUsedMs: number;
  /** The key that names it; undefined: none was issued. */
  key: string | undefined;
  /** What its calls are sampled with; undefined: with what the client asks for. */
  terms: SamplingTerms | undefined;
  /** Its calls go where the prefix cache is warm. */
  lastEngineId = "";
  /** Labels only grow (I5): a session never goes back to an older version than it has seen. */
  maxVersion = -1n;
  #nextIndex = 0;

  constructor(name: string, nowMs: number) {
    this.name = name;
    this.lastUsedMs = nowMs;
  }

  /** The place of a call in the order of arrival. A call that fails leaves a gap. */
  takeIndex(): number {
    return this.#nextIndex++;
  }

  /** Adds an answered call; `messages` are those it was asked with, `key` that of the message by which a client echoes it. */
  add(call: CallRecord, messages: readonly TemplateMessage[], key: string): void {
    const { parent } = call;
    // What the parent was asked with stands in the tree already, and its answer behind it.
    const known = parent && parent.position < messages.length ? this.#nodes.get(parent) : undefined;
    let node = known ?? this.#root;
    for (const message of messages.slice(known && parent ? parent.position + 1 : 0))
      node = childFor(node, message) ?? childOf(node, messageKey(message));
    const own = childOf(node, key);
    own.answers.push(call);
    this.#nodes.set(call, own);
    this.calls.push(call);
  }

  /** Earlier calls whose messages and answer are a prefix of `messages`, longest first, the likeliest parent first; at most so many. */
  candidates(messages: readonly TemplateMessage[], limit: number): CallRecord[] {
    const answered: { node: MessageNode; message: TemplateMessage }[] = [];
    let node: MessageNode | undefined = this.#root;
    for (const message of messages) {
      node = childFor(node, message);
      if (node === undefined) break;
      if (node.answers.length > 0) answered.push({ node, message });
    }
    const found: CallRecord[] = [];
    // Equal answers to equal prompts differ in nothing the agent can see; the newest that was not continued is its own.
    for (let last = answered.pop(); last && found.length < limit; last = answered.pop())
      found.push(...last.node.answers.toSorted(byLikelihood(last.message)));
    return found.slice(0, limit);
  }
}

/** Names of tool calls tell answers apart that say the same; without any, see `candidates`. */
function byLikelihood(echo: TemplateMessage): (a: CallRecord, b: CallRecord) => number {
  const names = callNames(echo);
  const isNamed = (call: CallRecord): number => (names !== "" && callNames(call.message) === names ? 0 : 1);
  return (a, b) => isNamed(a) - isNamed(b) || Math.min(a.children, 1) - Math.min(b.children, 1) || b.index - a.index;
}

function callNames({ tool_calls: calls }: TemplateMessage): string {
  const nameOf = ({ id }: { id?: unknown }): string => (typeof id === "string" ? id : "");
  return Array.isArray(calls) ? calls.map(nameOf).join(" ") : "";
}

function newNode(): MessageNode {
  return { children: new Map(), latest: undefined, answers: [] };
}

/** Messages are looked up by keys as long as they are; whether one is the same as last time, its characters tell at once. */
function childFor(node: MessageNode, message: TemplateMessage): MessageNode | undefined {
  if (node.latest !== undefined && hasKey(message, node.latest.key)) return node.latest.node;
  const key = messageKey(message);
  const child = node.children.get(key);
  if (child !== undefined) node.latest = { key, node: child };
  return child;
}

function childOf(node: MessageNode, key: string): MessageNode {
  let child = node.children.get(key);
  if (child === undefined) {
    child = newNode();
    node.children.set(key, child);
    node.latest = { key, node: child };
  }
  return child;
}
