// SPDX-License-Identifier: Apache-2.0
import { existsSync, lstatSync, readdirSync, realpathSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";

const known = new Map<string, readonly string[]>();

/**
 * What a program of ours has to read to run: its package, the packages that it can import, and Node. Nothing else of the
 * installation: no configuration and no key lies in these.
 */
export function foldersOfProgram(file: string): readonly string[] {
  const found = known.get(file) ?? [...new Set([realpathSync(process.execPath), ...foldersOf(realpathSync(file))])];
  known.set(file, found);
  return found;
}

function foldersOf(file: string): string[] {
  const own = above(file).find((folder) => existsSync(join(folder, "package.json")));
  const modules = above(file).flatMap((folder) => (basename(folder) === MODULES ? [folder] : modulesIn(folder)));
  return [...(own === undefined ? [] : [own]), ...modules.flatMap((folder) => [folder, ...ledTo(folder)])];
}

const MODULES = "node_modules";

function modulesIn(folder: string): string[] {
  const path = join(folder, MODULES);
  return existsSync(path) ? [path] : [];
}

function above(file: string): string[] {
  const parent = dirname(file);
  return parent === file ? [] : [parent, ...above(parent)];
}

/** Where its links lead: a workspace's packages lie elsewhere, beside it or in another checkout. */
function ledTo(modules: string): string[] {
  const entries = readdirSync(modules).flatMap((name) => {
    const path = join(modules, name);
    return name.startsWith("@") && !isLink(path) ? readdirSync(path).map((inner) => join(path, inner)) : [path];
  });
  const targets = entries
    .filter(isLink)
    .filter(existsSync)
    .map((path) => realpathSync(path));
  return targets.map(sharedFolder).filter((path) => path !== realpathSync(modules));
}

/** One folder in place of each package in it. */
function sharedFolder(path: string): string {
  const end = path.indexOf(`${sep}${MODULES}${sep}`);
  return end < 0 ? path : path.slice(0, end + 1 + MODULES.length);
}

function isLink(path: string): boolean {
  return lstatSync(path).isSymbolicLink();
}
