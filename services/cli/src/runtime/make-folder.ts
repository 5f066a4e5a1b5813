// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Violation } from "../cli-error.ts";

/**
 * Makes a folder and those above it. Node's own `recursive` never returns where a file system refuses new folders with
 * ENOENT, as /proc does: it goes up to a parent that exists, and down again, for ever.
 */
export function makeFolder(path: string): void {
  const missing: string[] = [];
  for (let folder = path; !existsSync(folder) && dirname(folder) !== folder; folder = dirname(folder))
    missing.push(folder);
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // Somebody else made it meanwhile.
    }
  }
}

/** Tries for real: permission bits say nothing about read-only file systems, nor to root. */
export function checkWritable(root: string): Violation[] {
  const probe = join(root, `.write-test-${process.pid}`);
  try {
    makeFolder(root);
    writeFileSync(probe, "");
    rmSync(probe);
    return [];
  } catch (error) {
    return [{ path: root, reason: `cannot be written (${(error as NodeJS.ErrnoException).code ?? String(error)})` }];
  }
}
