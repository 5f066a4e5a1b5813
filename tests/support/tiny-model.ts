// SPDX-License-Identifier: Apache-2.0
// The random tiny model of the tests: made once, since PyTorch takes seconds to start, and again when the code that makes it changes.
import { createHash } from "node:crypto";
import { cpSync, existsSync, globSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

import { runWhet } from "./whet.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** @param folder  where a copy of it goes */
export function tinyModel(folder: string): string {
  const source = globSync("python-trainer/src/whetstone_models/**/*.py", { cwd: ROOT }).sort();
  const digest = source.reduce((hash, file) => hash.update(readFileSync(join(ROOT, file))), createHash("sha256"));
  const made = join(ROOT, ".whetstone/tiny-models", digest.digest("hex").slice(0, 16));
  if (!existsSync(made)) make(made);
  cpSync(made, folder, { recursive: true });
  return folder;
}

function make(folder: string): void {
  const draft = `${folder}.${process.pid}`;
  const { status, output } = runWhet("models", "init", draft, "--preset", "tiny", "--seed", "7");
  if (status !== 0) throw new Error(output);
  try {
    renameSync(draft, folder);
  } catch {
    rmSync(draft, { recursive: true }); // Another test was first.
  }
}
