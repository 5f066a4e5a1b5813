// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whet-corpora-"));
  writeFileSync(join(folder, "bad.jsonl"), "nonsense\n");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("whet corpora index", () => {
  it.each([
    ["", /<file>: corpus .* is not a file/u],
    ["none.jsonl", /<file>: corpus .*none\.jsonl: .*no such file/u],
    ["bad.jsonl", /<file>: corpus .*bad\.jsonl, line 1: .*not valid JSON/u],
  ])("refuses %j as bad input", async (name, message) => {
    const terminal = fakeTerminal();
    const { signal } = new AbortController();
    const argv = ["corpora", "index", join(folder, name), "--data", join(folder, "data")];
    expect(await runCommand(argv, { terminal, environment: process.env, signal, force: signal })).toBe(2);
    expect(terminal.err.join("\n")).toMatch(message);
  });
});
