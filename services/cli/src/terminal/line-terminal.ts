// SPDX-License-Identifier: Apache-2.0
import type { Terminal } from "./terminal.ts";

/** For programs: every line goes to `write`, nothing is drawn. */
export function lineTerminal(write: (line: string) => void): Terminal {
  return {
    isTty: false,
    paint: (_, text) => text,
    columns: () => 100,
    rows: () => 30,
    line: (text = "") => write(text),
    error: write,
    json: (value) => write(JSON.stringify(value)),
    confirm: () => Promise.resolve(false),
    live: () => ({ draw: () => {}, above: write, done: () => {} }),
  };
}
