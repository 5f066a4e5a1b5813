// SPDX-License-Identifier: Apache-2.0
import type { Program } from "acorn";
import { childrenOf, type Node } from "./syntax.ts";

export type FunctionNode = Extract<
  Node,
  { type: "FunctionDeclaration" | "FunctionExpression" | "ArrowFunctionExpression" }
>;

export interface NamedFunction {
  readonly name: string;
  readonly node: FunctionNode;
  /** Line where the engine says that it begins. */
  readonly firstLine: number;
}

/** What is known of a place: how a function there is called, and where what it is the value of begins. */
interface Place {
  readonly name: string;
  /** Of the class around it. */
  readonly outer: string;
  readonly firstLine?: number;
}

/** Functions with their names; what is defined within a function belongs to it. One that is called where it stands is none. */
export function functionsOf(tree: Program): NamedFunction[] {
  return [...functionsBelow(tree, { name: "exports", outer: "" })];
}

function* functionsBelow(node: Node, place: Place): Generator<NamedFunction> {
  if (isFunction(node)) {
    const own = node.id?.name ?? place.name;
    const name = place.outer === "" ? own : `${place.outer}.${own}`;
    yield { name, node, firstLine: place.firstLine ?? lineOf(node) };
    return;
  }
  for (const [below, there] of placesBelow(node, place)) yield* functionsBelow(below, there);
}

function placesBelow(node: Node, place: Place): readonly (readonly [Node, Place])[] {
  switch (node.type) {
    case "CallExpression": {
      const callee = isFunction(node.callee) ? childrenOf(node.callee.body) : [node.callee];
      return [...callee, ...node.arguments].map((each) => [each, place]);
    }
    case "VariableDeclarator":
      return node.init ? [[node.init, { ...place, name: nameOf(node.id) }]] : [];
    case "AssignmentExpression":
      return [[node.right, { ...place, name: nameOf(node.left) }]];
    case "ClassDeclaration":
    case "ClassExpression":
      return node.body.body.map((each) => [each, { ...place, outer: node.id?.name ?? place.name }]);
    case "MethodDefinition":
    case "Property":
      return [[node.value, { ...place, name: nameOf(node.key), firstLine: lineOf(node) }]];
    default:
      return childrenOf(node).map((each) => [each, place]);
  }
}

function isFunction(node: Node): node is FunctionNode {
  return ["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"].includes(node.type);
}

export function lineOf(node: Node): number {
  return node.loc?.start.line ?? 1;
}

/** "parse" of `Parser.prototype.parse` and of `parse`. */
function nameOf(node: Node): string {
  if (node.type === "Identifier" || node.type === "PrivateIdentifier") return node.name;
  if (node.type === "MemberExpression") return nameOf(node.property);
  return node.type === "Literal" ? String(node.value) : "exports";
}
