// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

export const WHET = resolve(import.meta.dirname, "../../services/cli/bin/whet.mjs");

/** A command to its end. */
export function runWhet(...args: string[]): { status: number; json: unknown; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [WHET, ...args], {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
  });
  return { status: status ?? 1, json: parse(stdout), output: stdout + stderr };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
