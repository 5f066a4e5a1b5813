// SPDX-License-Identifier: Apache-2.0
import type { ChildProcess } from "node:child_process";
import { downloadFrom, uploadInto } from "../files-by-tar.ts";
import { type PolicyFailure, SandboxError } from "../failure.ts";
import type { DownloadOptions, ExecOptions, Execution, Sandbox, SandboxFile, SandboxLimits } from "../sandbox.ts";
import { checkPaths } from "../tar.ts";
import { asUnprivileged, environmentOf } from "./arguments.ts";
import { type CommandEnd, ProcessExecution } from "./execution.ts";
import type { Without } from "./guards.ts";
import { SYSTEM_PATH, startFailed } from "./keeper.ts";
import { type LiteFolder, readableAtC, WRITABLE_DEVICES } from "./lite-folder.ts";
import { LITE_STARTER } from "./lite-starter.ts";
import { closed } from "./process-sandbox.ts";

export interface LiteSandboxOptions {
  readonly id: string;
  readonly limits: SandboxLimits;
  readonly ttlMs: number;
  readonly folder: LiteFolder;
  readonly filter: Uint8Array;
  readonly without: Without;
  readonly onClose: () => void;
}

/** How long a keeper gets to end its command before it is ended itself. */
const END_MS = 10_000;
const MIB = 1024 * 1024;

/** Level C: no namespaces. Each command has a keeper and a Landlock domain of its own (lite-starter.ts). */
export class LiteSandbox implements Sandbox {
  readonly id: string;
  readonly level = "C";
  readonly workspace: string;
  readonly temporary: string;
  readonly #options: LiteSandboxOptions;
  readonly #endsAt: number;
  readonly #timer: NodeJS.Timeout;
  readonly #running = new Set<ProcessExecution>();
  #over: SandboxError | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: LiteSandboxOptions) {
    this.#options = options;
    this.id = options.id;
    this.workspace = options.folder.workspace;
    this.temporary = options.folder.temporary;
    this.#endsAt = performance.now() + options.ttlMs;
    this.#timer = setTimeout(() => {
      this.#expire();
    }, options.ttlMs);
    this.#timer.unref();
  }

  exec(command: readonly string[], options: ExecOptions = {}): Execution {
    const { limits, filter, without } = this.#options;
    const { cwd = "", env = {} } = options;
    if (cwd !== "") checkPaths([cwd], "cwd");
    if (this.#over) throw this.#over;
    const settings = this.#settings(cwd, env);
    const python = ["/usr/bin/python3", "-I", "-S", "-c", LITE_STARTER];
    const execution = new ProcessExecution({
      ...options,
      argv: [...asUnprivileged(), ...python, JSON.stringify(settings), ...command],
      filter,
      keepersEnv: without.has("environment") ? process.env : SYSTEM_PATH,
      deadlineMs: options.deadlineMs ?? limits.wallMs,
      end: endKeeper,
      judge: (end) => this.#judge(end),
    });
    this.#running.add(execution);
    const forget = (): boolean => this.#running.delete(execution);
    execution.result.then(forget, forget);
    return execution;
  }

  upload(files: readonly SandboxFile[], signal?: AbortSignal): Promise<void> {
    return uploadInto(this, files, signal);
  }

  download(paths: readonly string[], options: DownloadOptions = {}): Promise<SandboxFile[]> {
    return downloadFrom(this, paths, options);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    this.#over = closed();
    clearTimeout(this.#timer);
    await this.#endAll();
    await this.#options.folder.remove();
    this.#options.onClose();
  }

  #expire(): void {
    this.#over ??= new SandboxError("EXPIRED", "the sandbox's time to live is over: open it with a longer ttlMs");
    void this.#endAll();
  }

  async #endAll(): Promise<void> {
    for (const execution of this.#running) execution.kill();
    await Promise.allSettled([...this.#running].map(({ result }) => result));
  }

  /** What the starter reads. */
  #settings(cwd: string, env: Readonly<Record<string, string>>): Record<string, unknown> {
    const { limits, without, folder } = this.#options;
    return {
      owner: process.pid,
      cwd: cwd === "" ? this.workspace : `${this.workspace}/${cwd}`,
      env: environmentOf(env, folder),
      readable: readableAtC(),
      writable: [this.workspace, this.temporary, ...WRITABLE_DEVICES],
      memoryBytes: limits.memoryMiB * MIB,
      fileBytes: limits.diskMiB * MIB,
      openFiles: limits.openFiles,
      processes: limits.processes,
      // If we hang, the keeper still counts the time.
      ttlSeconds: Math.max(0, this.#endsAt - performance.now()) / 1000 + 1,
      without: [...without],
    };
  }

  /** Whose fault it is. The keeper says when nothing of the command is left; one that was killed itself does not. */
  #judge({ exitCode, hasBegun, reported, killedFor, said }: CommandEnd): PolicyFailure | undefined {
    if (killedFor !== undefined) return killedFor;
    if (this.#over) throw this.#over;
    if (!reported.includes("ended")) throw hasBegun ? lost() : startFailed(said.trim());
    if (!hasBegun) throw startFailed(said.trim());
    if (reported.includes("MEMORY")) return "MEMORY";
    if (reported.includes("PROCESSES")) return "PROCESSES";
    return exitCode === 128 + SIGXFSZ ? "DISK" : undefined;
  }
}

const SIGXFSZ = 25;

/** It ends its command first, which nobody else can do as surely. */
function endKeeper(keeper: ChildProcess): void {
  keeper.kill("SIGTERM");
  const late = setTimeout(() => keeper.kill("SIGKILL"), END_MS);
  late.unref();
  keeper.once("exit", () => {
    clearTimeout(late);
  });
}

function lost(): SandboxError {
  return new SandboxError("LOST", "the command's keeper was killed from outside, or memory was short");
}
