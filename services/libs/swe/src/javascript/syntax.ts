// SPDX-License-Identifier: Apache-2.0
import { type AnyNode, type Program, parse as parseWith } from "acorn";

export type Node = AnyNode;

/** @throws SyntaxError */
export function parse(source: string): Program {
  const options = {
    ecmaVersion: "latest",
    allowHashBang: true,
    locations: true,
    allowReturnOutsideFunction: true,
  } as const;
  try {
    return parseWith(source, { ...options, sourceType: "script" });
  } catch {
    return parseWith(source, { ...options, sourceType: "module" });
  }
}

export function childrenOf(node: Node): Node[] {
  return Object.values(node).flatMap((value: unknown) =>
    Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : [],
  );
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";
}

/** The node and all below it. */
export function* walk(node: Node): Generator<Node> {
  yield node;
  for (const child of childrenOf(node)) yield* walk(child);
}
