// SPDX-License-Identifier: Apache-2.0
import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export const root = join(import.meta.dirname, "../..");

export interface Import {
  readonly file: string;
  /** As it is written. */
  readonly target: string;
  /** `import type`, or a list of which every name is a type. */
  readonly typeOnly: boolean;
}

/** A comment may say how something is imported. */
const COMMENT_LINE = /^\s*(\/\/|\/?\*).*$/gm;
const IMPORT = /(?:(?:import|export)\s+(type\s)?([^;"]*?)from\s*|import\s*\(?\s*)"([^"]+)"/g;

export const isTest = (file: string): boolean =>
  /\.test\.ts$|(^|\/)fixtures\.ts$|\/(bench|tests?|test-support)\//.test(file);

/** Imports of all TypeScript files below a folder; files are named from the repository's root. */
export function importsBelow(folder: string): Import[] {
  const files = globSync("**/*.ts", { cwd: join(root, folder) }).filter((file) => !file.includes("node_modules"));
  return files.flatMap((name) => importsOf(join(folder, name)));
}

export function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), "utf8").replaceAll(COMMENT_LINE, "");
  return [...text.matchAll(IMPORT)].map(([, type, names, target]) => ({
    file,
    target: target as string,
    typeOnly: type !== undefined || isListOfTypes(names),
  }));
}

function isListOfTypes(names: string | undefined): boolean {
  const listed = /^\{([\s\S]*)\}\s*$/.exec(names ?? "")?.[1]?.split(",") ?? [];
  const given = listed.map((name) => name.trim()).filter((name) => name !== "");
  return given.length > 0 && given.every((name) => name.startsWith("type "));
}

/** The imported file from the repository's root; undefined: a package. */
export function importedFile({ file, target }: Import): string | undefined {
  return target.startsWith(".") ? normalize(join(dirname(file), target)) : undefined;
}

/** Groups of files that import each other in a ring (strongly connected components, Tarjan 1972). */
export function rings(imports: readonly Import[]): string[][] {
  const graph = new Map<string, string[]>();
  for (const each of imports) {
    const target = importedFile(each);
    if (target !== undefined) graph.set(each.file, [...(graph.get(each.file) ?? []), target]);
  }
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (file: string): number => {
    const index = order.size;
    order.set(file, index);
    stack.push(file);
    let low = index;
    for (const target of graph.get(file) ?? []) {
      if (!order.has(target)) low = Math.min(low, visit(target));
      else if (stack.includes(target)) low = Math.min(low, order.get(target) as number);
    }
    lowest.set(file, low);
    if (low === index) {
      const ring = stack.splice(stack.indexOf(file));
      if (ring.length > 1) found.push(ring.sort());
    }
    return low;
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return found;
}
