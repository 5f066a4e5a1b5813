// SPDX-License-Identifier: Apache-2.0
import { ConfigError, type WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { ChildLimits } from "./limits.ts";
import { codeFault, type ModuleCode } from "./code.ts";
import type { ModuleSandboxes, WantedIsolation } from "./isolation.ts";
import { ModuleHost } from "./module-host.ts";

/** A job's code, and what the job says of its sandbox. */
export interface HostedModule extends ModuleCode {
  readonly isolation: WantedIsolation;
}

export interface ModuleHostsOptions<Data = unknown> {
  /** The program that runs user code. */
  readonly entry: URL;
  /** What the program's `init` gets. */
  readonly data: (module: HostedModule) => Data;
  /** Closed with the hosts. */
  readonly sandboxes: ModuleSandboxes;
  readonly limits: ChildLimits;
  /** Without use for this long, a job's processes are closed, milliseconds. */
  readonly idleMs: number;
  readonly logger: Logger;
  readonly onEnd?: ((cause: WhetstoneError) => void) | undefined;
}

/** Modules that are kept although no process runs them. */
const KEPT_BYTES = 128 * 1024 * 1024;
const SWEEP_MS = 5_000;

interface Entry {
  readonly job: string;
  readonly host: ModuleHost;
  /** Nobody is expected any more. */
  leaving: boolean;
}

/** The processes of all jobs in one service, and the code of the modules that it knows. */
export class ModuleHosts<Data = unknown> implements AsyncDisposable {
  readonly #options: ModuleHostsOptions<Data>;
  readonly #hosts = new Map<string, Entry>();
  /** Least recently used first. */
  readonly #codes = new Map<string, Uint8Array>();
  readonly #closing = new Set<Promise<void>>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(options: ModuleHostsOptions<Data>) {
    this.#options = options;
    this.#sweeper = setInterval(() => this.#sweep(), Math.min(SWEEP_MS, options.idleMs)).unref();
  }

  /** Process ids of all children. */
  get pids(): number[] {
    return [...this.#hosts.values()].flatMap(({ host }) => host.pids);
  }

  /** Undefined: it is not here, or not any more. */
  code(digest: string): Uint8Array | undefined {
    const code = this.#codes.get(digest);
    if (code !== undefined) {
      this.#codes.delete(digest);
      this.#codes.set(digest, code);
    }
    return code;
  }

  /** @throws ConfigError when the code is too large or not what the digest says. */
  keep({ digest, code }: ModuleCode): void {
    if (this.#codes.has(digest)) return;
    const reason = codeFault(digest, code);
    if (reason !== undefined) throw new ConfigError([{ path: "module.code", reason }], { code: "TASK_INVALID" });
    this.#codes.set(digest, code);
    let bytes = this.#codes.values().reduce((sum, { length }) => sum + length, 0);
    for (const [oldest, { length }] of this.#codes) {
      if (bytes <= KEPT_BYTES || oldest === digest) return;
      this.#codes.delete(oldest);
      bytes -= length;
    }
  }

  /** The processes of a job's module, started at the first entry. */
  of(job: string, module: HostedModule): ModuleHost {
    const { digest, isolation } = module;
    const key = JSON.stringify([job, digest, isolation]);
    const known = this.#hosts.get(key);
    if (known !== undefined) {
      known.leaving = false;
      return known.host;
    }
    const { entry, data, limits, logger, onEnd, sandboxes } = this.#options;
    const host = new ModuleHost({
      entry,
      name: job === "" ? `module ${digest.slice(0, 12)}` : `job ${job}`,
      data: data(module),
      limits,
      isolation: sandboxes.isolationOf(isolation),
      logger: logger.child({ job, module: digest.slice(0, 12) }),
      onEnd,
    });
    this.#hosts.set(key, { job, host, leaving: false });
    return host;
  }

  /** Closes a job's processes when nothing runs in them any more, unless somebody comes again before that. */
  closeWhenIdle(job: string): void {
    for (const entry of this.#hosts.values()) if (entry.job === job) entry.leaving = true;
    this.#sweep();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#sweeper);
    for (const [key, entry] of this.#hosts) this.#close(key, entry);
    await Promise.all(this.#closing);
    await this.#options.sandboxes[Symbol.asyncDispose]();
  }

  #sweep(): void {
    for (const [key, entry] of this.#hosts) {
      const { host, leaving } = entry;
      const isDone = leaving ? host.leases === 0 : host.idleMs > this.#options.idleMs;
      if (isDone) this.#close(key, entry);
    }
  }

  #close(key: string, { host }: Entry): void {
    this.#hosts.delete(key);
    const closing = host.close();
    this.#closing.add(closing);
    void closing.finally(() => this.#closing.delete(closing));
  }
}
