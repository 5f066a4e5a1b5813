// SPDX-License-Identifier: Apache-2.0
// What an oracle reads of a page: the tree's text, as an agent sees it, and nothing else.

export interface TreeNode {
  /** Undefined: it has none, as texts do. */
  readonly bid: string | undefined;
  readonly role: string;
  readonly name: string;
  readonly value: string | undefined;
  readonly attributes: string;
  readonly parent: TreeNode | undefined;
  readonly children: TreeNode[];
}

const LINE =
  /^(\t*)(?:\[(\w+)\] )?(\w+)(?: ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))?(?: value=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,]*))?(?:, (.*))?$/u;

type Name = string | RegExp | undefined;

export class PageTree {
  readonly goal: string;
  readonly nodes: readonly TreeNode[];

  constructor(goal: string, text: string) {
    this.goal = goal;
    const nodes: TreeNode[] = [];
    const open: TreeNode[] = [];
    for (const line of text.split("\n")) {
      const [, tabs = "", bid, role = "", name = "", value, attributes = ""] = LINE.exec(line) ?? [];
      const depth = tabs.length;
      const parent = open[depth - 1];
      const node = { bid, role, name: plain(name), value: value && plain(value), attributes, parent, children: [] };
      parent?.children.push(node);
      open[depth] = node;
      open.length = depth + 1;
      nodes.push(node);
    }
    this.nodes = nodes;
  }

  all(role: string, name?: Name): TreeNode[] {
    return this.nodes.filter((node) => node.role === role && isNamed(node, name));
  }

  /** The first. @throws Error when there is none */
  one(role: string, name?: Name, index = 0): TreeNode {
    const found = this.all(role, name).at(index);
    if (found === undefined)
      throw new Error(`no ${role} ${String(name)} in\n${this.nodes.map((n) => `${n.role} ${n.name}`).join("\n")}`);
    return found;
  }

  has(role: string, name?: Name): boolean {
    return this.all(role, name).length > 0;
  }

  /** What stands in the goal between the n-th pair of double quotes. */
  quoted(index = 0): string {
    const found = [...this.goal.matchAll(/"([^"]*)"/gu)][index]?.[1];
    if (found === undefined) throw new Error(`nothing quoted in ${this.goal}`);
    return found;
  }
}

/** Of the nearest element that has one: a text's own is that of what it stands in. */
export function bidOf(node: TreeNode): string {
  if (node.bid !== undefined) return node.bid;
  if (node.parent === undefined) throw new Error(`${node.role} ${node.name} has no id`);
  return bidOf(node.parent);
}

/** All texts below a node, in order. */
export function textsOf(node: TreeNode): string[] {
  const own = node.role === "StaticText" && node.name !== "" ? [node.name] : [];
  return [...own, ...node.children.flatMap(textsOf)];
}

/** The ancestor so many elements up. */
export function above(node: TreeNode, levels: number): TreeNode {
  return levels === 0 || node.parent === undefined ? node : above(node.parent, levels - 1);
}

/** All nodes below one. */
export function below(node: TreeNode): TreeNode[] {
  return node.children.flatMap((child) => [child, ...below(child)]);
}

function isNamed({ name }: TreeNode, wanted: Name): boolean {
  if (wanted === undefined) return true;
  return typeof wanted === "string" ? name === wanted : wanted.test(name);
}

function plain(quoted: string): string {
  if (!/^['"]/u.test(quoted)) return quoted;
  return quoted
    .slice(1, -1)
    .replaceAll(/\\x([0-9a-f]{2})/gu, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/\\(.)/gu, (_, found: string) => ({ n: "\n", t: "\t" })[found] ?? found);
}
