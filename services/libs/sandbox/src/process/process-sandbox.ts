// SPDX-License-Identifier: Apache-2.0
import { type PolicyFailure, SandboxError } from "../failure.ts";
import type {
  DownloadOptions,
  ExecOptions,
  Execution,
  Sandbox,
  SandboxFile,
  SandboxLevel,
  SandboxLimits,
} from "../sandbox.ts";
import { downloadFrom, uploadInto } from "../files-by-tar.ts";
import { checkPaths } from "../tar.ts";
import { CHANNEL_FD, innerCommand, STARTED_FD, WORKSPACE } from "./arguments.ts";
import type { Cgroup } from "./cgroup.ts";
import { type CommandEnd, ProcessExecution } from "./execution.ts";
import type { Without } from "./guards.ts";
import type { ReadablePath } from "./readable.ts";
import { launchProgram, type Program, type ProgramOptions } from "./program.ts";
import { type Keeper, startFailed, SYSTEM_PATH } from "./keeper.ts";

export interface ProcessSandboxOptions {
  readonly id: string;
  readonly level: SandboxLevel;
  readonly limits: SandboxLimits;
  readonly mountPoint: string;
  readonly filter: Uint8Array;
  readonly keeper: Keeper;
  readonly cgroup: Cgroup | undefined;
  readonly emptyFolders: readonly string[];
  readonly readable: readonly ReadablePath[];
  readonly sockets: string | undefined;
  /** Variables of each command. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** What is there for this sandbox alone. */
  readonly endsWithIt?: AsyncDisposable | undefined;
  readonly ownProc: boolean;
  readonly needsProc: boolean;
  readonly without: Without;
  readonly onClose: () => void;
}

export class ProcessSandbox implements Sandbox {
  readonly id: string;
  readonly level: SandboxLevel;
  readonly workspace = WORKSPACE;
  readonly temporary = "/tmp";
  readonly #options: ProcessSandboxOptions;
  readonly #running = new Set<ProcessExecution | Program>();
  #closing: Promise<void> | undefined;

  constructor(options: ProcessSandboxOptions) {
    this.#options = options;
    this.id = options.id;
    this.level = options.level;
    // Where the kernel does not: commands are outside of the keeper's process namespace.
    if (!options.ownProc) void options.keeper.ended.then(() => this.#killAll());
  }

  exec(command: readonly string[], options: ExecOptions = {}): Execution {
    const { cgroup, limits } = this.#options;
    const { cwd = "", env = {} } = options;
    if (cwd !== "") checkPaths([cwd], "cwd");
    const inner = this.#inner(command, { cwd, env: { ...this.#options.env, ...env }, lastFd: STARTED_FD });
    const before = countersOf(cgroup);
    const execution = new ProcessExecution({
      ...options,
      ...inner,
      deadlineMs: options.deadlineMs ?? limits.wallMs,
      judge: (end) => this.#judge(end, before),
    });
    this.#running.add(execution);
    const forget = (): boolean => this.#running.delete(execution);
    execution.result.then(forget, forget);
    return execution;
  }

  /** Starts a program that stays until somebody ends it: its pipes and its memory are for the caller to watch. */
  launch(command: readonly string[], { env = {} }: ProgramOptions = {}): Program {
    const program = launchProgram(this.#inner(command, { cwd: "", env, lastFd: CHANNEL_FD }));
    this.#running.add(program);
    void program.result.then(() => this.#running.delete(program));
    return program;
  }

  /** Processes were killed because the memory of all of them was used up; at level B nobody counts. */
  get hasRunOutOfMemory(): boolean {
    return countersOf(this.#options.cgroup).memoryKills > 0;
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

  /** @throws SandboxError when it is over */
  #inner(command: readonly string[], own: { cwd: string; env: Readonly<Record<string, string>>; lastFd: number }) {
    const { keeper, cgroup, filter, without } = this.#options;
    if (this.#closing) throw closed();
    if (keeper.isOver) throw keeper.loss;
    const cgroupProcs = cgroup?.procs ?? [];
    const argv = innerCommand(command, {
      ...{ ...this.#options, ...own, keeper: keeper.pid, cgroupProcs },
      leftMs: keeper.leftMs,
    });
    return { argv, filter, keepersEnv: without.has("environment") ? process.env : SYSTEM_PATH };
  }

  async #close(): Promise<void> {
    const { keeper, cgroup, endsWithIt, onClose } = this.#options;
    // The kernel ends what runs inside, and those who started it are still there to reap it: an orphan waits for the first process.
    await keeper.close();
    this.#killAll();
    await Promise.allSettled([...this.#running].map(({ result }): Promise<unknown> => result));
    await cgroup?.remove();
    await endsWithIt?.[Symbol.asyncDispose]();
    onClose();
  }

  #killAll(): void {
    for (const execution of this.#running) execution.kill();
  }

  /** Whose fault it is. What happened before the command began is ours, unless its sandbox was used up by then. */
  #judge({ exitCode, hasBegun, killedFor, said }: CommandEnd, before: Counters): PolicyFailure | undefined {
    const { keeper, cgroup } = this.#options;
    if (killedFor !== undefined) return killedFor;
    if (this.#closing) throw closed();
    if (keeper.isOver) throw keeper.loss;
    if (exitCode === 0 && hasBegun) return undefined;
    const now = countersOf(cgroup);
    if (now.memoryKills > before.memoryKills) return "MEMORY";
    if (now.refusedProcesses > before.refusedProcesses) return "PROCESSES";
    if (keeper.isFull) return "DISK";
    if (hasBegun) return undefined;
    if (said.includes("Resource temporarily unavailable")) return "PROCESSES";
    throw startFailed(said.trim());
  }
}

interface Counters {
  readonly memoryKills: number;
  readonly refusedProcesses: number;
}

function countersOf(cgroup: Cgroup | undefined): Counters {
  const { memoryKills = 0, refusedProcesses = 0 } = cgroup ?? {};
  return { memoryKills, refusedProcesses };
}

export function closed(): SandboxError {
  return new SandboxError("CLOSED", "the sandbox was closed");
}
