// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FILES = 5000;
const FILE_BYTES = 10_000;
export const REPOSITORY_MB = (FILES * FILE_BYTES) / 1e6;

/** A library of middling size, whose files say nothing. */
export function makeRepository(folder: string): void {
  for (let i = 0; i < FILES; i += 1) {
    const path = join(folder, `package${i % 50}`);
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, `module${i}.py`), "x".repeat(FILE_BYTES));
  }
}
