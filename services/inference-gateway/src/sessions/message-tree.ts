// SPDX-License-Identifier: Apache-2.0
import { hasKey, messageKey } from "../completion/message.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { CallRecord } from "./call-record.ts";

/** A node of the message tree: `answers` are the calls whose own answer is this node's message. */
interface MessageNode {
  readonly children: Map<string, MessageNode>;
  /** The child that was reached last: a conversation that goes on passes here again. */
  latest: { readonly key: string; readonly node: MessageNode } | undefined;
  readonly answers: CallRecord[];
}

/** A node as another replica gets it. A list of them has each node behind the one that it hangs on. */
export interface ListedNode {
  /** Its place in the list; -1: the root, which is not listed. */
  readonly parent: number;
  readonly key: string;
  readonly answers: readonly CallRecord[];
}

/** What the calls of a session were asked and answered, by which the next call finds the one that it goes on from. */
export class MessageTree {
  readonly #root: MessageNode = newNode();
  /** Where the answer of each call stands. */
  readonly #nodes = new WeakMap<CallRecord, MessageNode>();

  /** @param key  of the message by which a client echoes the call's answer */
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

  list(): ListedNode[] {
    const listed: ListedNode[] = [];
    const waiting: { node: MessageNode; at: number }[] = [{ node: this.#root, at: -1 }];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      for (const [key, child] of next.node.children) {
        listed.push({ parent: next.at, key, answers: child.answers });
        waiting.push({ node: child, at: listed.length - 1 });
      }
    }
    return listed;
  }

  /** Makes an empty tree the one that was listed. */
  fill(listed: readonly ListedNode[]): void {
    const nodes: MessageNode[] = [];
    for (const { parent, key, answers } of listed) {
      const node = childOf(nodes[parent] ?? this.#root, key);
      node.answers.push(...answers);
      for (const call of answers) this.#nodes.set(call, node);
      nodes.push(node);
    }
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
