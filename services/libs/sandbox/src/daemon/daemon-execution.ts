// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { abortReason, onAbort } from "@whetstone/core";
import { LimitError, POLICY_FAILURES, type PolicyFailure, SandboxError } from "../failure.ts";
import { OutputLog } from "../output-log.ts";
import type { ExecOptions, ExecResult, Execution, OutputChunk, SandboxLimits } from "../sandbox.ts";
import type { Reply } from "./connection.ts";
import type { DaemonLink } from "./daemon-link.ts";
import { FRAMES, readFrames } from "./frames.ts";

const DEFAULT_OUTPUT_BYTES = 1024 * 1024;
const DEFAULT_TOTAL_BYTES = 64 * 1024 * 1024;
const KILLED = 137;

/** What holds for each command, within what holds for the sandbox as a whole. */
export interface CommandLimits extends Pick<SandboxLimits, "wallMs" | "processes" | "openFiles"> {
  readonly processMemoryBytes: number;
}

interface End {
  readonly exitCode: number;
  readonly failure: PolicyFailure | undefined;
}

/** A command that a daemon runs. Its output is followed by the number of its next byte, over as many connections as it takes. */
export class DaemonExecution implements Execution {
  readonly result: Promise<ExecResult>;
  readonly #id = randomUUID();
  readonly #link: DaemonLink;
  readonly #log: OutputLog;
  readonly #request: string;
  /** Input goes one after the other. */
  #writing: Promise<unknown> = Promise.resolve();
  #written: number;
  #began = Promise.withResolvers<void>();

  constructor(link: DaemonLink, command: readonly string[], options: ExecOptions, limits: CommandLimits) {
    const { maxOutputBytes = DEFAULT_OUTPUT_BYTES, stdin, signal } = options;
    this.#link = link;
    this.#log = new OutputLog(maxOutputBytes);
    const input = stdin === undefined ? undefined : Buffer.from(stdin);
    this.#written = input?.length ?? 0;
    this.#request = JSON.stringify({
      id: this.#id,
      command,
      folder: options.cwd ?? "",
      env: options.env ?? {},
      ...(input && { stdin: input.toString("base64"), endsInput: true }),
      deadlineMs: options.deadlineMs ?? limits.wallMs,
      maxTotalBytes: options.maxTotalBytes ?? Math.max(DEFAULT_TOTAL_BYTES, maxOutputBytes),
      processes: limits.processes,
      openFiles: limits.openFiles,
      memoryBytes: limits.processMemoryBytes,
    });
    this.result = this.#run(signal);
    this.result.catch(() => undefined); // Whoever follows the output may not wait for the result.
    this.#began.promise.catch(() => undefined);
  }

  get totalBytes(): number {
    return this.#log.totalBytes;
  }

  chunks(from = 0): AsyncIterable<OutputChunk, undefined> {
    return this.#log.chunks(from);
  }

  async write(data: string | Uint8Array): Promise<void> {
    await this.#send(Buffer.from(data), false);
  }

  endInput(): void {
    void this.#send(Buffer.alloc(0), true);
  }

  kill(failure?: PolicyFailure): void {
    void this.#end(`?keep&reason=${failure ?? ""}`);
  }

  async #run(signal: AbortSignal | undefined): Promise<ExecResult> {
    const leave = signal && onAbort(signal, () => this.kill());
    if (signal?.aborted) this.kill();
    try {
      const { exitCode, failure } = await this.#followToEnd();
      if (signal?.aborted) throw abortReason(signal);
      const [stdout, stderr] = [this.#log.text("stdout"), this.#log.text("stderr")];
      return { exitCode, failure, stdout, stderr, cutBytes: this.#log.cutBytes };
    } finally {
      leave?.();
      this.#log.end();
      this.#began.resolve();
      void this.#end("");
    }
  }

  async #followToEnd(): Promise<End> {
    try {
      return await this.#link.reach(() => this.#follow());
    } catch (error) {
      // The sandbox as a whole ran into a limit while this ran, or before: no failure of ours.
      if (error instanceof LimitError) return { exitCode: KILLED, failure: error.failure };
      throw error;
    }
  }

  /** Over one connection. Asking for the start again is harmless: the daemon knows its number. */
  async #follow(): Promise<End> {
    const from = this.#log.totalBytes;
    const path = `/executions/${this.#id}?from=${from}`;
    const start = { method: "POST", path: "/executions", body: this.#request } as const;
    const stream = await this.#link.connection.open(from === 0 ? start : { method: "GET", path });
    try {
      if (stream.status !== 200) throw await refusal(stream);
      this.#began.resolve();
      for await (const { kind, data } of readFrames(stream)) {
        if (kind === FRAMES.end) return endOf(data);
        if (kind === FRAMES.lost) throw new SandboxError("LOST", "output was lost: its reader was away for too long");
        if (kind === FRAMES.stdout) this.#log.add("stdout", data);
        if (kind === FRAMES.stderr) this.#log.add("stderr", data);
      }
    } finally {
      stream.destroy();
    }
    throw new Error("the sandbox's answer ended before the command did");
  }

  #send(data: Buffer, isEnd: boolean): Promise<unknown> {
    const at = this.#written;
    this.#written += data.length;
    const path = `/executions/${this.#id}/in?at=${at}${isEnd ? "&end" : ""}`;
    const send = async (): Promise<unknown> => {
      await this.#began.promise;
      return await this.#link.reach(() => this.#link.connection.call({ method: "POST", path, body: data }));
    };
    // What it does not read is lost, as in a pipe whose reader has gone.
    this.#writing = this.#writing.then(send).catch(() => undefined);
    return this.#writing;
  }

  async #end(query: string): Promise<void> {
    const path = `/executions/${this.#id}${query}`;
    await this.#began.promise;
    if (this.#link.over) return;
    await this.#link.reach(() => this.#link.connection.call({ method: "DELETE", path })).catch(() => undefined);
  }
}

async function refusal(stream: Reply): Promise<SandboxError> {
  let text = "";
  for await (const part of stream) text += String(part);
  const why = `the command could not be started: ${stream.status} ${text.slice(0, 500)}`;
  return new SandboxError("START", why);
}

function endOf(data: Buffer): End {
  const { exitCode, failure } = JSON.parse(data.toString()) as { exitCode: number; failure: string };
  return { exitCode, failure: POLICY_FAILURES.find((name) => name === failure) };
}
