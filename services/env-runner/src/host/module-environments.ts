// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type HostedModule, ModuleHosts, ModuleSandboxes } from "@whetstone/modules";
import type { Reset } from "@whetstone/proto/environments/v1/environments";
import { type Module, SandboxBackend } from "@whetstone/proto/types/v1/types";
import type { Environment } from "@whetstone/sdk";
import type { Logger } from "@whetstone/telemetry";
import type { Browsers } from "../browsers/browsers.ts";
import type { EnvRunnerConfig } from "../config.ts";
import type { KindDescription } from "./calls.ts";
import { DeathRegister } from "./death-register.ts";
import { HostedEnvironment } from "./hosted-environment.ts";

/** The module's code is neither in the request nor remembered: the caller must send it. */
export class ModuleMissingError extends WhetstoneError {
  constructor(digest: string) {
    super("NOT_FOUND", `module ${digest} is not here: send its code`);
  }
}

type Config = Pick<EnvRunnerConfig, "moduleMemoryMib" | "moduleHangMs" | "moduleIdleMs">;

export interface ModuleDeps {
  /** For environments that are played in one. */
  readonly browsers: Browsers;
  readonly logger: Logger;
  readonly onEnd?: (cause: WhetstoneError) => void;
}

const START_MS = 60_000;
const ENTRY = new URL("./environment-child.ts", import.meta.url);

/** Environments of users' modules, each job's in a process of its own. */
export class ModuleEnvironments implements AsyncDisposable {
  readonly #hosts: ModuleHosts;
  readonly #deaths = new DeathRegister();
  readonly #browsers: Browsers;

  constructor(config: Config, { browsers, logger, onEnd }: ModuleDeps) {
    this.#browsers = browsers;
    this.#hosts = new ModuleHosts({
      entry: ENTRY,
      data: ({ code }) => ({ code }),
      sandboxes: new ModuleSandboxes(),
      limits: { memoryMiB: config.moduleMemoryMib, hangMs: config.moduleHangMs, startMs: START_MS },
      idleMs: config.moduleIdleMs,
      logger,
      onEnd,
    });
  }

  /** Process ids of the children. */
  get pids(): number[] {
    return this.#hosts.pids;
  }

  /** @throws ModuleMissingError; ConfigError when the code is not what its digest says. */
  open({ kind, args = {}, module, job, episodeId }: Reset): Environment {
    const hosted = this.#codeOf(module as Module);
    const { none, network } = hosted.isolation;
    return new HostedEnvironment({
      host: this.#hosts.of(job, hosted),
      deaths: this.#deaths,
      browsers: this.#browsers,
      network: { named: network, open: none },
      ...{ episodeId, kind, args },
    });
  }

  /** What a module defines. @throws ModuleMissingError; a TASK failure when it cannot be loaded. */
  async describe(module: Module, signal: AbortSignal): Promise<readonly KindDescription[]> {
    const host = this.#hosts.of("", this.#codeOf(module));
    try {
      using lease = await host.enter(0, signal);
      return (await lease.host.call("describe", undefined, { signal })) as readonly KindDescription[];
    } finally {
      this.#hosts.closeWhenIdle("");
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#hosts[Symbol.asyncDispose]();
  }

  #codeOf({ digest, code, sandbox }: Module): HostedModule {
    if (code.length > 0) this.#hosts.keep({ digest, code });
    const kept = this.#hosts.code(digest);
    if (kept === undefined) throw new ModuleMissingError(digest);
    const isolation = { none: sandbox?.backend === SandboxBackend.NONE, network: sandbox?.network ?? [] };
    return { digest, code: kept, isolation };
  }
}
