// SPDX-License-Identifier: Apache-2.0
import type { AxNode, AxProperty } from "./ax-node.ts";
import { readMark, textOf } from "./ax-node.ts";
import { pythonRepr } from "./python-repr.ts";

const IGNORED_ROLES: ReadonlySet<string> = new Set(["LineBreak", "InlineTextBox"]);
const IGNORED_PROPERTIES: ReadonlySet<string> = new Set([
  ...["editable", "readonly", "level", "settable", "multiline", "invalid", "focusable"],
]);
/** Their names alone say it. */
const FLAGS: ReadonlySet<string> = new Set(["required", "focused", "atomic"]);
const MAX_DEPTH = 1000;

export interface TreeOptions {
  /** Elements without a meaning of their own (div, span) are shown, too: some of them can be clicked. */
  readonly withGeneric: boolean;
}

/**
 * The tree as text, a line each node: `[12] button 'Send', focused`, indented by tabs. The form is that of BrowserGym's
 * `flatten_axtree_to_str`: generic nodes without attributes are left out unless they are asked for, and texts that their parent's
 * name has. Boxes of lines of text (InlineTextBox), which newer Chromiums tell of, are left out always.
 * @param nodes  of all frames; the first is the page's root
 */
export function flattenTree(nodes: readonly AxNode[], options: TreeOptions): string {
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const lines: string[] = [];
  const walk = (node: AxNode, depth: number, parentName: string): void => {
    const { line, name } = lineOf(node, parentName, options);
    if (line !== undefined) lines.push("\t".repeat(depth) + line);
    if (depth > MAX_DEPTH) return;
    for (const id of node.childIds ?? []) {
      const child = byId.get(id);
      if (child !== undefined && child !== node) walk(child, line === undefined ? depth : depth + 1, name);
    }
  };
  if (nodes[0] !== undefined) walk(nodes[0], 0, "");
  return lines.join("\n");
}

/** Without a line the node is left out, and its children are not. */
function lineOf(
  marked: AxNode,
  parentName: string,
  { withGeneric }: TreeOptions,
): { line: string | undefined; name: string } {
  const { node, bid } = readMark(marked);
  const role = String(node.role?.value);
  if (IGNORED_ROLES.has(role) || node.name === undefined) return { line: undefined, name: "" };
  const name = textOf(node.name);
  const attributes = (node.properties ?? []).flatMap(attributeOf);
  const isPlain = role === "generic" && attributes.length === 0;
  const isSaidAbove = role === "StaticText" && parentName.includes(name);
  if (isSaidAbove || (isPlain && !withGeneric)) return { line: undefined, name };
  const place = bid === undefined ? "" : `[${bid}] `;
  return { line: [`${place}${headOf(role, name, node.value?.value)}`, ...attributes].join(", "), name };
}

function headOf(role: string, name: string, value: unknown): string {
  const head = role === "generic" && name === "" ? role : `${role} ${pythonRepr(name.trim())}`;
  return value === undefined ? head : `${head} value=${pythonRepr(value)}`;
}

function attributeOf({ name, value }: AxProperty): string[] {
  if (value?.value === undefined || IGNORED_PROPERTIES.has(name)) return [];
  if (FLAGS.has(name)) return value.value ? [name] : [];
  return [`${name}=${pythonRepr(value.value)}`];
}
