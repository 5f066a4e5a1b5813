// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type Edit, edited } from "./edit.ts";
import { type Chosen, type Outcome, runTests, TOOLS_PATH } from "./runner.ts";

export const ROOT = join(import.meta.dirname, "../..");
const NOT_COPIED = /(^|\/)(node_modules|\.git|\.venv|\.whetstone|__pycache__|\.[a-z]+_cache|\.hypothesis)$/;

/** A copy of the repository whose packages import each other, and not those of this tree. */
export interface Copy extends Disposable {
  /** Runs tests of one runner in the copy as it is now. */
  test(...chosen: readonly Chosen[]): Promise<Outcome>;
  /** Makes the edit; disposing takes it back. @throws when its text is not there exactly once: the code has moved on. */
  plant(edit: Edit): Disposable;
}

export function copyRepository(): Copy {
  mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
  const copy = mkdtempSync(join(ROOT, ".whetstone/planted-"));
  const filter = (from: string): boolean => !NOT_COPIED.test(from.slice(ROOT.length));
  for (const name of readdirSync(ROOT))
    if (filter(join(ROOT, name))) cpSync(join(ROOT, name), join(copy, name), { recursive: true, filter });
  linkModules(copy);
  symlinkSync(join(ROOT, ".venv"), join(copy, ".venv"));
  linkBuilt(copy);
  return {
    test: (...chosen) => runTests(copy, chosen),
    plant: (edit) => {
      const path = join(copy, edit.file);
      const text = readFileSync(path, "utf8");
      write(path, edited(text, edit));
      return { [Symbol.dispose]: () => write(path, text) };
    },
    [Symbol.dispose]: () => {
      rmSync(copy, { recursive: true, force: true });
    },
  };
}

/** What tests build once. */
function linkBuilt(copy: string): void {
  const built = join(ROOT, ".whetstone/versitygw");
  if (!existsSync(built)) return;
  mkdirSync(join(copy, ".whetstone"));
  symlinkSync(built, join(copy, ".whetstone/versitygw"));
}

/** The services read rules of the contract from what is generated of it. */
function write(path: string, text: string): void {
  writeFileSync(path, text);
  if (!path.endsWith(".proto")) return;
  const proto = path.slice(0, path.indexOf("/whetstone/", path.lastIndexOf("/proto/")));
  execFileSync("buf", ["generate"], { cwd: proto, env: { ...process.env, PATH: TOOLS_PATH } });
}

/** Packages of others by link; ours stay the relative links that npm made, so that they lead into the copy. */
function linkModules(copy: string): void {
  const from = join(ROOT, "node_modules");
  const to = join(copy, "node_modules");
  mkdirSync(to);
  for (const name of readdirSync(from)) if (name !== "@whetstone") symlinkSync(join(from, name), join(to, name));
  cpSync(join(from, "@whetstone"), join(to, "@whetstone"), { recursive: true, verbatimSymlinks: true });
  if (!lstatSync(join(to, "@whetstone/core")).isSymbolicLink()) throw new Error("workspace packages are not links");
}
