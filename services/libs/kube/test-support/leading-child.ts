// SPDX-License-Identifier: Apache-2.0
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { waitFor } from "@whetstone/testkit";

const PROGRAM = fileURLToPath(new URL("./leading-process.ts", import.meta.url));

export interface LeadingSetup {
  /** Default: that of KUBECONFIG. */
  readonly server?: string;
  readonly namespace: string;
  readonly lease: string;
  readonly identity: string;
  readonly times?: object;
}

/** A process of its own that campaigns and leads: its main loop can be stopped without stopping the test's. */
export class LeadingChild implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams;
  #said = "";
  exit: { readonly code: number | null; readonly signal: string | null; readonly atMs: number } | undefined;

  constructor(setup: LeadingSetup) {
    this.#child = spawn(process.execPath, [PROGRAM, JSON.stringify(setup)]);
    this.#child.stdout.setEncoding("utf8").on("data", (part: string) => (this.#said += part));
    this.#child.stderr.setEncoding("utf8").on("data", (part: string) => (this.#said += part));
    this.#child.on("exit", (code, signal) => (this.exit = { code, signal, atMs: performance.now() }));
  }

  tell(line: string): void {
    this.#child.stdin.write(`${line}\n`);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async hear(text: string, timeoutMs = 10_000): Promise<void> {
    await waitFor(() => this.#said.includes(text), { timeoutMs });
  }

  async ended(timeoutMs = 10_000): Promise<NonNullable<LeadingChild["exit"]>> {
    await waitFor(() => this.exit !== undefined, { timeoutMs });
    return this.exit as NonNullable<LeadingChild["exit"]>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.exit) this.#child.kill("SIGKILL");
    await this.ended(30_000);
  }
}
