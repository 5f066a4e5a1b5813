// SPDX-License-Identifier: Apache-2.0
/** A node of the accessibility tree, as the DevTools protocol gives it (Accessibility.AXNode), and what is read of it. */
export interface AxNode {
  readonly nodeId: string;
  readonly role?: AxValue | undefined;
  readonly name?: AxValue | undefined;
  readonly value?: AxValue | undefined;
  readonly description?: AxValue | undefined;
  readonly properties?: readonly AxProperty[] | undefined;
  readonly childIds?: readonly string[] | undefined;
  readonly backendDOMNodeId?: number | undefined;
  readonly frameId?: string | undefined;
}

export interface AxValue {
  readonly value?: unknown;
}

export interface AxProperty {
  readonly name: string;
  readonly value?: AxValue | undefined;
}

/** `browsergym_id_12 ` and what the page itself says there. */
const MARKED = /^browsergym_id_([a-zA-Z0-9]+)\s?([\s\S]*)$/u;

/** What our mark says of a node, and the node without it. */
export interface MarkedNode {
  readonly node: AxNode;
  readonly bid: string | undefined;
}

export function readMark(node: AxNode): MarkedNode {
  const property = node.properties?.find(({ name }) => name === "roledescription");
  const [, byRole, ownRole] = MARKED.exec(textOf(property?.value)) ?? [];
  const [, byDescription] = MARKED.exec(textOf(node.description)) ?? [];
  if (byRole === undefined) return { node, bid: byDescription };
  const properties = node.properties?.flatMap((each) => {
    if (each !== property) return [each];
    return ownRole === "" ? [] : [{ name: each.name, value: { value: ownRole } }];
  });
  return { node: { ...node, properties }, bid: byRole };
}

export function textOf(value: AxValue | undefined): string {
  return typeof value?.value === "string" ? value.value : "";
}
