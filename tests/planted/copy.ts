// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import {
  cpSync,
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
import type { PlantedBug } from "./bugs.ts";

const root = join(import.meta.dirname, "../..");
const COPIED = [
  "services",
  "proto",
  "tests/package.json",
  "tests/support",
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
];

/** A copy of the services whose packages import each other, and not those of this tree. */
export interface Copy extends Disposable {
  /** Runs tests of the copy. @returns whether they passed, and what the runner said */
  test(...suites: string[]): Promise<{ passed: boolean; output: string }>;
  /** Makes the edit. @throws when the text is not there exactly once, because the code has moved on. */
  plant(bug: PlantedBug): void;
  /** Takes the edit back. */
  restore(bug: PlantedBug): void;
}

export function copyServices(): Copy {
  mkdirSync(join(root, ".whetstone"), { recursive: true });
  const copy = mkdtempSync(join(root, ".whetstone/planted-"));
  for (const path of COPIED)
    cpSync(join(root, path), join(copy, path), {
      recursive: true,
      filter: (from) => !/\/(node_modules|\.git)$/.test(from),
    });
  linkModules(copy);
  return {
    test: (...suites) => runTests(copy, suites),
    plant: (bug) => {
      const path = join(copy, bug.file);
      const parts = readFileSync(path, "utf8").split(bug.find);
      if (parts.length !== 2)
        throw new Error(`${bug.file}: the text to replace stands there ${parts.length - 1} times`);
      writeFileSync(path, parts.join(bug.replace));
    },
    restore: (bug) => {
      cpSync(join(root, bug.file), join(copy, bug.file));
    },
    [Symbol.dispose]: () => {
      rmSync(copy, { recursive: true, force: true });
    },
  };
}

/** Packages of others by link; ours stay the relative links that npm made, so that they lead into the copy. */
function linkModules(copy: string): void {
  const from = join(root, "node_modules");
  const to = join(copy, "node_modules");
  mkdirSync(to);
  for (const name of readdirSync(from)) if (name !== "@whetstone") symlinkSync(join(from, name), join(to, name));
  cpSync(join(from, "@whetstone"), join(to, "@whetstone"), { recursive: true, verbatimSymlinks: true });
  if (!lstatSync(join(to, "@whetstone/core")).isSymbolicLink()) throw new Error("workspace packages are not links");
}

function runTests(copy: string, suites: string[]): Promise<{ passed: boolean; output: string }> {
  const { VITEST, VITEST_POOL_ID, VITEST_WORKER_ID, NODE_ENV, ...env } = process.env;
  void [VITEST, VITEST_POOL_ID, VITEST_WORKER_ID, NODE_ENV]; // They would make the runner take itself for a worker of this one.
  const venv = join(root, ".venv/bin");
  const PATH = `${venv}:${join(root, "node_modules/.bin")}:${process.env["PATH"]}`;
  const child = spawn("vitest", ["run", "--root", copy, ...suites], {
    cwd: copy,
    env: { ...env, PATH },
    timeout: 120_000,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      resolve({ passed: code === 0, output });
    });
  });
}
