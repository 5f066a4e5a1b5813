// SPDX-License-Identifier: Apache-2.0
/** `--set loop.steps=5`: changes one setting of a parsed job file. */
import { badInput } from "../cli-error.ts";

/** "validation.variants[0].name" → ["validation", "variants", 0, "name"]. Undefined: not a path. */
export function parsePath(text: string): (string | number)[] | undefined {
  if (!/^[A-Za-z_]\w*(\[\d+\])*(\.[A-Za-z_]\w*(\[\d+\])*)*$/.test(text)) return undefined;
  return [...text.matchAll(/[A-Za-z_]\w*|\d+/g)].map(([part]) => (/^\d/.test(part) ? Number(part) : part));
}

/** Splits "path=value" at the first "=". Throws bad input when there is none or the path is none. */
export function parseAssignment(text: string): { path: (string | number)[]; value: string } {
  const at = text.indexOf("=");
  const path = at > 0 ? parsePath(text.slice(0, at).trim()) : undefined;
  if (!path) throw badInput([{ path: "--set", reason: `"${text}" is not like loop.steps=5` }]);
  return { path, value: text.slice(at + 1) };
}

/** Sets a value in place; folders on the way are made. Throws bad input where something else is in the way. */
export function setPath(document: Record<string, unknown>, path: readonly (string | number)[], value: unknown): void {
  let parent: Record<string | number, unknown> = document;
  for (const [index, key] of path.entries()) {
    if (index === path.length - 1) {
      parent[key] = value;
      return;
    }
    const child = (parent[key] ??= typeof path[index + 1] === "number" ? [] : {});
    if (typeof child !== "object") {
      throw badInput([{ path: "--set", reason: `${path.slice(0, index + 1).join(".")} is not a mapping` }]);
    }
    parent = child as Record<string | number, unknown>;
  }
}
