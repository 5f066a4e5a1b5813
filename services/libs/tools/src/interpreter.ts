// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { abortReason, onAbort } from "@whetstone/core";
import {
  type Execution,
  type OutputChunk,
  OutputLog,
  type PolicyFailure,
  type Sandbox,
  type SandboxBackend,
  type SandboxLimits,
} from "@whetstone/sandbox";
import { type Language, requireLanguage } from "./language.ts";
import { ToolError } from "./tool.ts";

// P1: one call at a time, in the order they were made. P2: names are kept until the process ends; when it has, the model is told.
// P3: a call ends at its deadline: at first within the language, which keeps the names; a second later with the process.

export interface InterpreterOptions {
  readonly limits?: Partial<SandboxLimits> | undefined;
  /** What its code may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** Kept of one call's output: its beginning and its end. Default 8,000. */
  readonly maxOutputBytes?: number | undefined;
}

/** Output after which a call is ended. */
const MAX_CALL_BYTES = 16 * 1024 * 1024;
const KILL_AFTER_MS = 3000;
const STDOUT_BYTES = 256 * 1024;
const WEEK_MS = 7 * 86_400_000;

/** Where the limits do not say. */
const MEMORY_MIB = 512;

type Chunks = AsyncIterator<OutputChunk, undefined>;

interface Process {
  readonly execution: Execution;
  readonly chunks: Chunks;
}

const STARTED_ANEW = "(the interpreter was started anew: names of earlier calls are lost)";

const WHY = {
  DEADLINE: "it took too long and could not be interrupted",
  MEMORY: "it took more memory than it may",
  PROCESSES: "it started more processes than it may",
  DISK: "the disk is full",
  OUTPUT: "it printed too much",
} as const satisfies Record<PolicyFailure, string>;

/** One process of a language in a sandbox of its own, started by the first call. */
export class Interpreter implements AsyncDisposable {
  readonly #backend: SandboxBackend;
  readonly #language: Language;
  readonly #options: InterpreterOptions;
  #sandbox: Promise<Sandbox> | undefined;
  #process: Process | undefined;
  /** The process before this one was ended: it may be that nobody was told, because the call had been given up. */
  #isAnew = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(backend: SandboxBackend, language: Language, options: InterpreterOptions = {}) {
    this.#backend = backend;
    this.#language = language;
    this.#options = options;
  }

  /** @returns what the code printed, and the value of its last expression. @throws ToolError for what the code did wrong. */
  run(code: string, timeoutMs: number, signal: AbortSignal): Promise<string> {
    const call = this.#last.then(() => this.#call(code, timeoutMs, signal)); // P1
    this.#last = call.catch(() => undefined);
    return call;
  }

  /** @throws SandboxError where it cannot be had here */
  async require(): Promise<void> {
    await requireLanguage(this.#backend, this.#language, this.#memoryMiB);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const sandbox = await this.#sandbox?.catch(() => undefined);
    await sandbox?.close();
  }

  async #call(code: string, timeoutMs: number, signal: AbortSignal): Promise<string> {
    if (signal.aborted) throw abortReason(signal);
    const running = (this.#process ??= await this.#start());
    const isAnew = this.#isAnew;
    this.#isAnew = false;
    const { execution } = running;
    const end = randomBytes(16).toString("hex");
    const kill = (): void => {
      execution.kill("DEADLINE");
    };
    const timer = setTimeout(kill, timeoutMs + KILL_AFTER_MS); // P3
    const leave = onAbort(signal, kill);
    try {
      await execution.write(`${JSON.stringify({ code, seconds: timeoutMs / 1000, end })}\n`);
      const { status, output: printed } = await this.#read(running, end);
      const output = isAnew ? `${STARTED_ANEW}\n${printed}` : printed;
      if (status === "ok") return output;
      if (status === "deadline")
        throw new ToolError(`${output}\nthe code took longer than ${timeoutMs} ms; names are kept.`);
      throw await this.#lost(execution, output);
    } finally {
      clearTimeout(timer);
      leave();
    }
  }

  async #start(): Promise<Process> {
    this.#sandbox ??= this.#open();
    const sandbox = await this.#sandbox;
    const execution = sandbox.exec(this.#language.command(this.#memoryMiB), {
      deadlineMs: WEEK_MS,
      maxOutputBytes: STDOUT_BYTES,
      maxTotalBytes: Number.MAX_SAFE_INTEGER,
    });
    return { execution, chunks: execution.chunks()[Symbol.asyncIterator]() };
  }

  /** @throws SandboxError, also where the language cannot be had in the sandbox */
  async #open(): Promise<Sandbox> {
    await this.require();
    return await this.#backend.open({ limits: this.#options.limits, reach: this.#options.reach });
  }

  get #memoryMiB(): number {
    return this.#options.limits?.memoryMiB ?? MEMORY_MIB;
  }

  /** Up to the line that ends the call, or to the end of the process. */
  async #read({ execution, chunks }: Process, end: string): Promise<{ status: string; output: string }> {
    const log = new OutputLog(this.#options.maxOutputBytes ?? 8000);
    let unread = Buffer.alloc(0);
    for (let total = 0; ;) {
      const next = await chunks.next();
      if (next.done === true) break;
      const { data } = next.value;
      total += data.length;
      if (total > MAX_CALL_BYTES) execution.kill("OUTPUT");
      unread = Buffer.concat([unread, data]);
      const at = unread.indexOf(end);
      const status = at === -1 ? undefined : /^ (\w+)\n/u.exec(unread.subarray(at + end.length).toString())?.[1];
      const known = at === -1 ? Math.max(0, unread.length - end.length) : at;
      log.add("stdout", unread.subarray(0, known));
      unread = unread.subarray(known);
      if (status !== undefined) return { status, output: log.text("stdout") };
    }
    log.add("stdout", unread);
    return { status: "ended", output: log.text("stdout") };
  }

  /** P2. @throws SandboxError where it was not the code's doing */
  async #lost(execution: Execution, output: string): Promise<ToolError> {
    this.#process = undefined;
    this.#isAnew = true;
    const { failure, exitCode } = await execution.result;
    const why = failure === undefined ? `it ended with exit code ${exitCode}` : WHY[failure];
    return new ToolError(`${output}\nthe interpreter was ended: ${why}. Names are lost.`);
  }
}
