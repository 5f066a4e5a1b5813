// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect, it } from "vitest";

import { buildProgram } from "../program.ts";
import { runCommand } from "../run-command.ts";
import { fakeTerminal } from "../../test-support/fake-terminal.ts";

const home = mkdtempSync(join(tmpdir(), "whet-home-"));
afterAll(() => rmSync(home, { recursive: true }));

async function whet(environment: NodeJS.ProcessEnv, ...argv: string[]): Promise<{ code: number; said: string }> {
  const terminal = fakeTerminal();
  const { signal } = new AbortController();
  const code = await runCommand(argv, { terminal, environment, signal, force: signal });
  return { code, said: terminal.err.join("\n") };
}

it.each([
  ["install", "--kube"],
  ["status", "--context", "current"],
  ["jobs", "ls", "--context", "mine"],
])("without a kubeconfig says that there is none, and where it was looked for: whet %s %s %s", async (...argv) => {
  const { code, said } = await whet({ HOME: home }, ...argv.filter((arg) => arg !== undefined));
  expect(said).toBe(
    `KUBECONFIG: there is no kubeconfig: KUBECONFIG is not set, and ${home}/.kube/config does not exist. Set KUBECONFIG to the file of your cluster`,
  );
  expect(code).toBe(2);
});

it("names a file of KUBECONFIG that is not there", async () => {
  const { code, said } = await whet({ KUBECONFIG: `${home}/nope` }, "status", "--context", "current");
  expect(said).toMatch(/^KUBECONFIG: cannot be read: .*nope/);
  expect(code).toBe(2);
});

it("says of --release what the documents say: a namespace has one", async () => {
  const { signal } = new AbortController();
  const context = { terminal: fakeTerminal(), environment: {}, signal, force: signal };
  await using opened = new AsyncDisposableStack();
  const help = buildProgram(context, [], { exitCode: 0 }, opened).helpInformation();
  expect(help.replace(/\s+/g, " ")).toContain("name of the installation; a namespace has one");
});
