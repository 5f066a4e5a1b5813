// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Child, isProcessDeath, type Lease, type ModuleHost } from "@whetstone/modules";
import type { Environment, Info, ResetOptions, ResetResult, StepOptions, StepResult } from "@whetstone/sdk";
import type { CloseCall, ResetCall, StepCall } from "./calls.ts";
import type { DeathRegister } from "./death-register.ts";

export interface HostedOptions {
  readonly host: ModuleHost;
  readonly deaths: DeathRegister;
  readonly episodeId: string;
  readonly kind: string;
  readonly args: Info;
}

let sessions = 0;

/** An environment in the process of its job's module. It stays in the one process where it was reset. */
export class HostedEnvironment implements Environment {
  readonly #options: HostedOptions;
  readonly #session = (sessions += 1);
  #lease: Lease | undefined;
  #child: Child | undefined;
  #closed = false;

  constructor(options: HostedOptions) {
    this.#options = options;
  }

  async reset({ seed, signal }: ResetOptions): Promise<ResetResult> {
    const { host, deaths, episodeId, kind, args } = this.#options;
    const lease = await host.enter(deaths.of(episodeId), signal);
    if (this.#closed) {
      lease[Symbol.dispose]();
      throw new WhetstoneError("CANCELLED", "the environment was closed meanwhile");
    }
    this.#lease = lease;
    return (await this.#counted(async () => {
      this.#child = await lease.host.running(signal);
      const call: ResetCall = { session: this.#session, kind, args, seed };
      return this.#child.call("reset", call, { signal });
    })) as ResetResult;
  }

  async step(action: unknown, { signal }: StepOptions): Promise<StepResult> {
    const child = this.#child;
    if (child === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "session: step needs a reset first");
    const call: StepCall = { session: this.#session, action };
    return (await this.#counted(() => child.call("step", call, { signal }))) as StepResult;
  }

  async close(): Promise<void> {
    this.#closed = true;
    try {
      const call: CloseCall = { session: this.#session };
      if (this.#child?.isOver === false) await this.#child.call("close", call);
    } finally {
      this.#lease?.[Symbol.dispose]();
    }
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (isProcessDeath(error)) this.#options.deaths.note(this.#options.episodeId);
      throw error;
    }
  }
}
