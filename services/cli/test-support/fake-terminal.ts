// SPDX-License-Identifier: Apache-2.0
/** A terminal that remembers: for commands run in-process. */
import type { Terminal } from "../src/terminal/terminal.ts";

export interface FakeTerminal extends Terminal {
  readonly out: string[];
  readonly err: string[];
  readonly documents: unknown[];
  /** What a person answers. */
  says: boolean;
}

export function fakeTerminal(): FakeTerminal {
  const [out, err, documents]: [string[], string[], unknown[]] = [[], [], []];
  const json = (value: unknown): void => {
    const text = JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? Number(inner) : inner));
    documents.push(JSON.parse(text));
  };
  return {
    says: false,
    confirm(question) {
      out.push(question);
      return Promise.resolve(this.says);
    },
    out,
    err,
    documents,
    isTty: false,
    paint: (_, text) => text,
    columns: () => 100,
    rows: () => 30,
    line: (text = "") => void out.push(text),
    error: (text) => void err.push(text),
    json,
    live: () => ({ draw: () => {}, above: (text) => void out.push(text), done: () => {} }),
  };
}
