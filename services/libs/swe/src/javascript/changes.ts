// SPDX-License-Identifier: Apache-2.0
// Bugs that can be planted in a function: what changes of its text there are. The text is changed, never written anew from the
// tree, so that nothing but the bug tells a changed line from its neighbours. The kinds are those of whetstone_tasks.mutations.
import type { IfStatement } from "acorn";
import { type FunctionNode, functionsOf, lineOf } from "./functions.ts";
import { type Node, parse, walk } from "./syntax.ts";

/** One way to break a function; names as the program that reads it has them. */
export interface Change {
  readonly kind: string;
  readonly function: string;
  readonly first_line: number;
  readonly line: number;
  /** Bytes of the file, in UTF-8, that are replaced. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Found = readonly [kind: string, node: Node, start: number, end: number, text: string];

const COMPARISONS: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "==": "!=",
  "!=": "==",
};
const ARITHMETIC: Readonly<Record<string, string>> = {
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "/",
  "&": "|",
  "|": "&",
  "<<": ">>",
  ">>": "<<",
};
const LOGICAL: Readonly<Record<string, string>> = { "&&": "||", "||": "&&", "??": "&&" };
const MAX_NUMBER = 1000;
const LEAST_REMOVED = 2;

/** All ways to break a file's functions that leave it a program. Empty where it is none. */
export function changesIn(source: string): Change[] {
  const tree = parse(source);
  const bytes = (at: number): number => Buffer.byteLength(source.slice(0, at));
  return functionsOf(tree).flatMap(({ name, node, firstLine }) =>
    [...changesOf(node, source)]
      .filter(([, , start, end, text]) => isProgram(source.slice(0, start) + text + source.slice(end)))
      .map(([kind, at, start, end, text]) => {
        const place = { first_line: firstLine, line: lineOf(at) };
        return { kind, function: name, ...place, start: bytes(start), end: bytes(end), text };
      }),
  );
}

function isProgram(text: string): boolean {
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

function* changesOf(node: FunctionNode, source: string): Generator<Found> {
  for (const each of walk(node.body)) yield* changesAt(each, source);
  for (const { right } of node.params.filter((param) => param.type === "AssignmentPattern"))
    if (right.type === "Literal") yield* constant("wrong_default", right);
  const { body } = node;
  if (body.type !== "BlockStatement" || body.body.length < LEAST_REMOVED) return;
  const [first, last] = [body.body[0] as Node, body.body.at(-1) as Node];
  if (lineOf(first) !== lineOf(node))
    yield ["removed_body", first, first.start, last.end, 'throw new Error("not implemented");'];
}

type Of<T extends Node["type"]> = Extract<Node, { type: T }>;

/** By the kind of the node. */
const OPERATORS: { readonly [T in Node["type"]]?: (node: Of<T>, source: string) => Iterable<Found> } = {
  BinaryExpression: binary,
  LogicalExpression: (node, source) => swapped("boolean", node, node.operator, source),
  AssignmentExpression: (node, source) =>
    node.operator.length > 1 ? swapped("operator", node, node.operator, source) : [],
  Literal: (node) => constant("off_by_one", node),
  UnaryExpression: (node, source) =>
    node.operator === "!" ? [replaced("negation", node, `(${textOf(node.argument, source)})`)] : [],
  IfStatement: branch,
  ConditionalExpression: conditional,
  ReturnStatement: ({ argument }) =>
    argument && argument.type !== "Literal" ? [replaced("dropped_return", argument, "undefined")] : [],
  CallExpression: call,
  ExpressionStatement: (node) =>
    node.expression.type === "CallExpression" ? [replaced("dropped_call", node, ";")] : [],
  BreakStatement: (node) => (node.label ? [] : [replaced("loop_exit", node, "continue;")]),
  ContinueStatement: (node) => (node.label ? [] : [replaced("loop_exit", node, "break;")]),
};

function changesAt(node: Node, source: string): Iterable<Found> {
  const operator = OPERATORS[node.type] as ((node: Node, source: string) => Iterable<Found>) | undefined;
  return operator?.(node, source) ?? [];
}

function replaced(kind: string, node: Node, text: string): Found {
  return [kind, node, node.start, node.end, text];
}

function textOf({ start, end }: Node, source: string): string {
  return source.slice(start, end);
}

function binary(node: Of<"BinaryExpression">, source: string): Iterable<Found> {
  if (node.left.type === "PrivateIdentifier") return [];
  return swapped(node.operator in COMPARISONS ? "compare" : "operator", node, node.operator, source);
}

function conditional({ consequent, alternate }: Of<"ConditionalExpression">, source: string): Iterable<Found> {
  const middle = source.slice(consequent.end, alternate.start);
  const other = `${textOf(alternate, source)}${middle}${textOf(consequent, source)}`;
  return [["swapped_branches", consequent, consequent.start, alternate.end, other]];
}

function call({ arguments: [left, right] }: Of<"CallExpression">, source: string): Iterable<Found> {
  if (!left || !right || left.type === "SpreadElement" || right.type === "SpreadElement") return [];
  const middle = source.slice(left.end, right.start);
  const other = `${textOf(right, source)}${middle}${textOf(left, source)}`;
  return [["swapped_arguments", left, left.start, right.end, other]];
}

type Sides = Of<"BinaryExpression" | "LogicalExpression" | "AssignmentExpression">;

function* swapped(kind: string, { left, right }: Sides, operator: string, source: string): Generator<Found> {
  const gap = source.slice(left.end, right.start);
  const isAssigned = kind === "operator" && operator.endsWith("=");
  const plain = isAssigned ? operator.slice(0, -1) : operator;
  const other = COMPARISONS[plain] ?? ARITHMETIC[plain] ?? LOGICAL[plain];
  if (other === undefined) return;
  const at = gap.indexOf(operator);
  const text = gap.slice(0, at) + other + (isAssigned ? "=" : "") + gap.slice(at + operator.length);
  yield [kind, left, left.end, right.start, text];
}

function* constant(kind: string, node: Node): Generator<Found> {
  if (node.type !== "Literal") return;
  const { value, start, end } = node;
  if (typeof value === "boolean") yield [kind === "off_by_one" ? "flag" : kind, node, start, end, String(!value)];
  if (typeof value === "number" && Number.isInteger(value) && Math.abs(value) < MAX_NUMBER) {
    yield [kind, node, start, end, String(value + 1)];
    if (value > 0) yield [kind, node, start, end, String(value - 1)];
  }
}

function* branch({ test, consequent }: IfStatement, source: string): Generator<Found> {
  const { type, start, end } = test;
  if (type !== "UnaryExpression" && type !== "BinaryExpression")
    yield ["negation", test, start, end, `!(${source.slice(start, end)})`];
  if (consequent.type !== "BlockStatement" || consequent.body.length === 0) return;
  const [first, last] = [consequent.body[0] as Node, consequent.body.at(-1) as Node];
  yield ["dropped_branch", first, first.start, last.end, ";"];
}
