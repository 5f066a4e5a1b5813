// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { abortReason, onAbort } from "@whetstone/core";
import type { PolicyFailure } from "../failure.ts";
import { OutputLog } from "../output-log.ts";
import type { ExecOptions, ExecResult, Execution, OutputChunk } from "../sandbox.ts";
import { SECCOMP_FD, STARTED_FD } from "./arguments.ts";
import { killGroup } from "./process-group.ts";

/** What is known when the command's processes are gone; who knows the sandbox's limits makes a result of it, or an error. */
export interface CommandEnd {
  readonly exitCode: number;
  /** The command itself has begun: what went wrong afterwards is not ours. */
  readonly hasBegun: boolean;
  /** All that its keeper said on the descriptor for that. */
  readonly reported: string;
  /** We killed it for this. */
  readonly killedFor: PolicyFailure | undefined;
  /** What was said on standard error. */
  readonly said: string;
}

export interface ExecutionOptions extends ExecOptions {
  readonly argv: readonly string[];
  readonly filter: Uint8Array;
  /** Of the programs that keep the command, not of the command. */
  readonly keepersEnv: NodeJS.ProcessEnv;
  readonly deadlineMs: number;
  /** Ends all of it. Default: the process group of who keeps the command is killed. */
  readonly end?: (keeper: ChildProcess) => void;
  /** @throws what the result rejects with */
  readonly judge: (end: CommandEnd) => PolicyFailure | undefined;
}

const DEFAULT_OUTPUT_BYTES = 1024 * 1024;
const DEFAULT_TOTAL_BYTES = 64 * 1024 * 1024;

export class ProcessExecution implements Execution {
  readonly result: Promise<ExecResult>;
  readonly #child: ChildProcess;
  readonly #log: OutputLog;
  readonly #maxTotalBytes: number;
  readonly #end: (keeper: ChildProcess) => void;
  #killedFor: PolicyFailure | undefined;

  constructor(options: ExecutionOptions) {
    const { argv, filter, keepersEnv: env, stdin, maxOutputBytes = DEFAULT_OUTPUT_BYTES } = options;
    const [program = "", ...args] = argv;
    this.#end = options.end ?? killGroup;
    this.#log = new OutputLog(maxOutputBytes);
    this.#maxTotalBytes = options.maxTotalBytes ?? Math.max(DEFAULT_TOTAL_BYTES, maxOutputBytes);
    const stdio = ["pipe", "pipe", "pipe", "pipe", "pipe"] as const;
    this.#child = spawn(program, args, { stdio: [...stdio], env, detached: true });
    const reported = this.#connect(filter);
    this.result = this.#ended(options, reported);
    this.result.catch(() => undefined); // Whoever follows the output may not wait for the result.
    if (stdin !== undefined) this.#child.stdin?.end(stdin);
  }

  get totalBytes(): number {
    return this.#log.totalBytes;
  }

  chunks(from = 0): AsyncIterable<OutputChunk, undefined> {
    return this.#log.chunks(from);
  }

  async write(data: string | Uint8Array): Promise<void> {
    const { stdin } = this.#child;
    if (stdin === null || stdin.destroyed || stdin.write(data)) return;
    await Promise.race([once(stdin, "drain"), this.result.catch(() => undefined)]);
  }

  endInput(): void {
    this.#child.stdin?.end();
  }

  /** The whole chain of processes that keep the command; its process namespace ends with them. */
  kill(failure?: PolicyFailure): void {
    this.#killedFor ??= failure;
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#end(this.#child);
  }

  /** @returns what was reported, once it has ended */
  #connect(filter: Uint8Array): () => string {
    const { stdin, stdout, stderr, stdio } = this.#child;
    const filterPipe = stdio[SECCOMP_FD] as Writable;
    for (const pipe of [stdin, filterPipe]) pipe?.on("error", () => undefined); // It ended before it read all.
    filterPipe.end(filter);
    stdout?.on("data", (data: Buffer) => this.#take("stdout", data));
    stderr?.on("data", (data: Buffer) => this.#take("stderr", data));
    let reported = "";
    (stdio[STARTED_FD] as Readable).on("data", (data: Buffer) => (reported += data.toString()));
    return () => reported;
  }

  #take(stream: OutputChunk["stream"], data: Buffer): void {
    this.#log.add(stream, data);
    if (this.#log.totalBytes > this.#maxTotalBytes) this.kill("OUTPUT");
  }

  async #ended({ deadlineMs, signal, judge }: ExecutionOptions, said: () => string): Promise<ExecResult> {
    const timer = setTimeout(() => this.kill("DEADLINE"), deadlineMs);
    const leave = signal && onAbort(signal, () => this.kill());
    if (signal?.aborted) this.kill();
    try {
      const exitCode = await exitOf(this.#child);
      if (signal?.aborted) throw abortReason(signal);
      const [stdout, stderr] = [this.#log.text("stdout"), this.#log.text("stderr")];
      const reported = said();
      const hasBegun = reported.startsWith("\n");
      const failure = judge({ exitCode, hasBegun, reported, killedFor: this.#killedFor, said: stderr });
      return { exitCode, failure, stdout, stderr, cutBytes: this.#log.cutBytes };
    } finally {
      clearTimeout(timer);
      leave?.();
      this.#log.end();
    }
  }
}

/** Resolves after the last output; bubblewrap gives 128 + n for signal n, and so do we for itself. */
function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => {
      killGroup(child);
    });
    child.once("close", (code) => {
      resolve(code ?? 128 + SIGKILL);
    });
  });
}

const SIGKILL = 9;
