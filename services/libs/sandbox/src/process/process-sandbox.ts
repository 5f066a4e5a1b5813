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
import { innerCommand, WORKSPACE } from "./arguments.ts";
import type { Cgroup } from "./cgroup.ts";
import { type CommandEnd, ProcessExecution } from "./execution.ts";
import type { Without } from "./guards.ts";
import { type Keeper, startFailed, SYSTEM_PATH } from "./keeper.ts";

export interface ProcessSandboxOptions {
  readonly id: string;
  readonly level: SandboxLevel;
  readonly limits: SandboxLimits;
  readonly mountPoint: string;
  readonly filter: Uint8Array;
  readonly keeper: Keeper;
  readonly cgroup: Cgroup | undefined;
  readonly without: Without;
  readonly onClose: () => void;
}

export class ProcessSandbox implements Sandbox {
  readonly id: string;
  readonly level: SandboxLevel;
  readonly workspace = WORKSPACE;
  readonly temporary = "/tmp";
  readonly #options: ProcessSandboxOptions;
  readonly #running = new Set<ProcessExecution>();
  #closing: Promise<void> | undefined;

  constructor(options: ProcessSandboxOptions) {
    this.#options = options;
    this.id = options.id;
    this.level = options.level;
  }

  exec(command: readonly string[], options: ExecOptions = {}): Execution {
    const { keeper, cgroup, limits, filter, without } = this.#options;
    const { cwd = "", env = {} } = options;
    if (cwd !== "") checkPaths([cwd], "cwd");
    if (this.#closing) throw closed();
    if (keeper.isOver) throw keeper.loss;
    const before = countersOf(cgroup);
    const argv = innerCommand(command, {
      ...this.#options,
      keeper: keeper.pid,
      cgroupProcs: cgroup?.procs ?? [],
      cwd,
      env,
    });
    const execution = new ProcessExecution({
      ...options,
      argv,
      filter,
      keepersEnv: without.has("environment") ? process.env : SYSTEM_PATH,
      deadlineMs: options.deadlineMs ?? limits.wallMs,
      judge: (end) => this.#judge(end, before),
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
    const { keeper, cgroup, onClose } = this.#options;
    // The kernel ends what runs inside, and those who started it are still there to reap it: an orphan waits for the first process.
    await keeper.close();
    for (const execution of this.#running) execution.kill();
    await Promise.allSettled([...this.#running].map(({ result }) => result));
    await cgroup?.remove();
    onClose();
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
