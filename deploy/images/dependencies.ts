// SPDX-License-Identifier: Apache-2.0
/** Copies what a bundle imports out of the installed node_modules, so that an image holds the versions of the lock and no more. */
import { cpSync, existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { ROOT } from "../pack/workspaces.ts";

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export interface CopyOptions {
  /** The built SDK: its folder becomes node_modules/@whetstone/sdk. */
  readonly sdk: string;
  /** Holds node_modules. Default: the repository. */
  readonly root?: string;
}

/** What runs never reads: types, source maps, sources in other languages. */
const DEAD = /\.(d\.[cm]?ts|[cm]?ts|map|md|markdown)$|\/(test|tests|__tests__|docs|examples?)$/i;

/**
 * Fills `folder`/node_modules with the dependencies of `folder`/package.json and theirs.
 * @throws Error when one of them is not installed.
 */
export function copyDependencies(folder: string, { sdk, root = ROOT }: CopyOptions): void {
  const modules = join(folder, "node_modules");
  cpSync(sdk, join(modules, "@whetstone/sdk"), { recursive: true });
  const found = new Set<string>();
  for (const start of [folder, sdk]) collect(readManifest(start), root, { root, found });
  const isAlive = (path: string): boolean => !DEAD.test(path.slice(root.length));
  for (const path of found) {
    const own = (source: string): boolean => isAlive(source) && !source.slice(path.length).includes("/node_modules");
    cpSync(path, join(folder, relative(root, path)), { recursive: true, filter: own });
  }
}

interface Search {
  readonly root: string;
  readonly found: Set<string>;
}

function collect(manifest: Manifest, from: string, search: Search): void {
  const { dependencies = {}, optionalDependencies = {} } = manifest;
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    if (name.startsWith("@whetstone/")) continue;
    const path = locate(name, from, search.root);
    if (path === undefined && name in optionalDependencies) continue;
    if (path === undefined) throw new Error(`${name} is not installed below ${search.root}: run npm ci`);
    if (search.found.has(path)) continue;
    search.found.add(path);
    collect(readManifest(path), path, search);
  }
}

/** As Node looks for it: in the node_modules of the folder, then of those above. */
function locate(name: string, from: string, root: string): string | undefined {
  for (let folder = from; folder.startsWith(root); folder = dirname(folder)) {
    const path = join(folder, "node_modules", name);
    if (existsSync(join(path, "package.json"))) return path;
  }
  return undefined;
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}
