// SPDX-License-Identifier: Apache-2.0
// What in a change of a library is no repair but reaches for the tests that judge it. Code of the library runs in the process of
// its tests, so it could change how they compare, end, or are told of. What it would need for that is known by name; a repair needs
// none of it. Only what a change adds counts: what was there is the library's.
import { type Node, parse, walk } from "./syntax.ts";

const MODULES =
  /^(node:)?(assert|async_hooks|child_process|cluster|diagnostics_channel|domain|events|fs|inspector|module|perf_hooks|process|repl|test|tls|net|http|https|timers|trace_events|util|v8|vm|worker_threads)(\/|$)|^tape(\/|$)|^mock-property$|^object-inspect$|^deep-equal$/u;
const GLOBALS = new Set([
  "Function",
  "Proxy",
  "Reflect",
  "WebAssembly",
  "eval",
  "global",
  "globalThis",
  "process",
  "queueMicrotask",
  "setImmediate",
  "setInterval",
  "setTimeout",
]);
const PROPERTIES = new Set([
  "__defineGetter__",
  "__defineSetter__",
  "__lookupGetter__",
  "__proto__",
  "arguments",
  "callee",
  "caller",
  "captureStackTrace",
  "children",
  "constructor",
  "defineProperties",
  "defineProperty",
  "getOwnPropertyDescriptor",
  "getOwnPropertyDescriptors",
  "getPrototypeOf",
  "hasInstance",
  "main",
  "mainModule",
  "parent",
  "prepareStackTrace",
  "setPrototypeOf",
  "stack",
  "toPrimitive",
  "toStringTag",
]);
const BUILT_IN =
  /^(Array|ArrayBuffer|BigInt|Boolean|Buffer|console|Date|Error|Iterator|JSON|Map|Math|Number|Object|Promise|RegExp|Set|String|Symbol|TypeError|RangeError|Uint8Array|WeakMap|WeakSet|module|require)$/u;

/** How often it has each of what a repair has no need of. Empty for a file that is no program: it fails by itself. */
export function tamperingNames(source: string): Record<string, number> {
  const counts: Record<string, number> = {};
  let tree;
  try {
    tree = parse(source);
  } catch {
    return counts;
  }
  for (const node of walk(tree)) for (const name of namesAt(node)) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

type Of<T extends Node["type"]> = Extract<Node, { type: T }>;

/** By the kind of the node. */
const NAMES: { readonly [T in Node["type"]]?: (node: Of<T>) => readonly string[] } = {
  Identifier: ({ name }) => (GLOBALS.has(name) ? [name] : []),
  ImportExpression: () => ["import()"],
  ImportDeclaration: ({ source }) => (MODULES.test(String(source.value)) ? [`import ${String(source.value)}`] : []),
  CallExpression: ({ callee, arguments: [first] }) =>
    callee.type === "Identifier" && callee.name === "require" ? requiredBy(first) : [],
  MemberExpression: member,
  Literal: ({ value }) =>
    typeof value === "string" && (PROPERTIES.has(value) || GLOBALS.has(value)) ? [`"${value}"`] : [],
  AssignmentExpression: ({ left }) => (isBuiltIn(left) ? [CHANGE] : []),
  UnaryExpression: ({ operator, argument }) => (operator === "delete" && isBuiltIn(argument) ? [CHANGE] : []),
  Property: ({ key }) => (key.type === "Identifier" && HOOKS.has(key.name) ? [`${key.name}:`] : []),
};
const CHANGE = "a change of what JavaScript brings";
/** Called by whoever compares or shows an object. */
const HOOKS = new Set(["valueOf", "toString", "toJSON", "then"]);

function namesAt(node: Node): readonly string[] {
  const names = NAMES[node.type] as ((node: Node) => readonly string[]) | undefined;
  return names?.(node) ?? [];
}

function member({ object, property, computed }: Of<"MemberExpression">): string[] {
  const isRequire = object.type === "Identifier" && object.name === "require";
  const named = !computed && property.type === "Identifier" && PROPERTIES.has(property.name);
  return [
    ...(named ? [`.${property.name}`] : []),
    ...(isRequire ? ["require."] : []),
    ...(computed && isMadeUp(property) ? ["a name that is put together"] : []),
  ];
}

function requiredBy(argument: Node | undefined): string[] {
  if (argument?.type !== "Literal") return ["require of a name that is put together"];
  return MODULES.test(String(argument.value)) ? [`require ${String(argument.value)}`] : [];
}

/** "con" + "structor", and the like. */
function isMadeUp(node: Node): boolean {
  return node.type === "BinaryExpression" ? node.operator === "+" && hasText(node) : node.type === "TemplateLiteral";
}

function hasText(node: Node): boolean {
  return [...walk(node)].some((each) => each.type === "Literal" && typeof each.value === "string");
}

/** `Object.is`, `Array.prototype.map`, `module.parent`; not `module.exports`, and nothing in it. */
function isBuiltIn(node: Node): boolean {
  if (node.type !== "MemberExpression") return false;
  const path = pathOf(node);
  return BUILT_IN.test(path[0] ?? "") && !(path[0] === "module" && path[1] === "exports");
}

/** "module", "exports", "parse" */
function pathOf(node: Node): string[] {
  if (node.type === "Identifier") return [node.name];
  if (node.type !== "MemberExpression") return [];
  const last = node.property.type === "Identifier" && !node.computed ? node.property.name : "";
  return [...pathOf(node.object), last];
}
