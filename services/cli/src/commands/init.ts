// SPDX-License-Identifier: Apache-2.0
/** `whet init <dir>`: a new project that trains as it stands. Files that exist are left alone. */
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";

import manifest from "../../package.json" with { type: "json" };

import { ownPackages } from "../modules/own-packages.ts";
import { badInput } from "../cli-error.ts";
import { projectFiles } from "../modules/project.ts";
import { INSTALLATION } from "../runtime/layout.ts";
import { makeFolder } from "../runtime/make-folder.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export async function init(directory: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  const root = resolve(directory);
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === false)
    throw badInput([{ path: directory, reason: "is a file" }]);
  const { specifiers, advice } = ownPackages(INSTALLATION, root, manifest.version);
  const files = projectFiles(basename(root), specifiers, readTemplate());
  const made: string[] = [];
  const kept: string[] = [];
  for (const [path, text] of Object.entries(files)) (writeNew(join(root, path), text) ? made : kept).push(path);
  if (flags.json === true) return context.terminal.json({ directory: root, made, kept, ...(advice && { advice }) });
  for (const path of made) context.terminal.line(`made ${join(directory, path)}`);
  for (const path of kept) context.terminal.line(`kept ${join(directory, path)}: it exists`);
  if (advice !== undefined) context.terminal.line(`\n${advice}`);
  const enter = relative(process.cwd(), root);
  context.terminal.line(`\nnext: ${enter === "" ? "" : `cd ${enter} && `}npm install && npm test && npm run train`);
}

function readTemplate(): Record<string, string> {
  const folder = join(INSTALLATION.templates, "default");
  const paths = globSync("**/*", { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile());
  const read = (path: string): [string, string] => [relative(folder, path), readFileSync(path, "utf8")];
  return Object.fromEntries(paths.map(({ parentPath, name }) => read(join(parentPath, name))).sort());
}

/** False: there is something already. */
function writeNew(path: string, text: string): boolean {
  try {
    makeFolder(dirname(path));
    writeFileSync(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST" && existsSync(path)) return false;
    throw badInput([{ path, reason: `cannot be written (${(error as NodeJS.ErrnoException).code ?? String(error)})` }]);
  }
}
