// SPDX-License-Identifier: Apache-2.0
/** The npm workspaces of this repository. */
import { globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");

export interface Workspace {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  /** Absolute. */
  readonly folder: string;
  /** Source files by subpath: { ".": "./src/index.ts" }. */
  readonly exports: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** By package name. */
export function readWorkspaces(): Map<string, Workspace> {
  const { workspaces } = readJson(join(ROOT, "package.json")) as { workspaces: string[] };
  const manifests = workspaces.flatMap((pattern) => globSync(`${pattern}/package.json`, { cwd: ROOT }));
  const read = manifests.map((path): Workspace => {
    const manifest = readJson(join(ROOT, path)) as Partial<Workspace> & { name: string; version: string };
    const defaults = { description: "", exports: {}, dependencies: {} };
    return { ...defaults, ...manifest, folder: join(ROOT, dirname(path)) };
  });
  return new Map(read.map((workspace) => [workspace.name, workspace]));
}

/**
 * Versions of npm packages that bundles import, as the workspaces pin them.
 * @throws Error when nobody declares one, or two workspaces pin different versions.
 */
export function versionsOf(packages: Iterable<string>, workspaces: Iterable<Workspace>): Record<string, string> {
  const pinned = new Map<string, string>();
  for (const { name, dependencies } of workspaces) {
    for (const [dependency, version] of Object.entries(dependencies)) {
      const other = pinned.get(dependency) ?? version;
      if (other !== version) throw new Error(`${name} pins ${dependency}@${version}, another workspace ${other}`);
      pinned.set(dependency, version);
    }
  }
  const sorted = [...packages].sort();
  const missing = sorted.filter((name) => !pinned.has(name));
  if (missing.length > 0) throw new Error(`imported, but in no package.json: ${missing.join(", ")}`);
  return Object.fromEntries(sorted.map((name) => [name, pinned.get(name) as string]));
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, "utf8"));
}
