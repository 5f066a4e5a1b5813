// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Child, isProcessDeath, type Lease, type ModuleHost } from "@whetstone/modules";
import type { Awaitable, Environment, Info, ResetOptions, ResetResult, StepOptions, StepResult } from "@whetstone/sdk";
import type { Browsers } from "../browsers/browsers.ts";
import { type BegunTask, type CloseCall, isBegunTask, type ResetCall, type StepCall } from "./calls.ts";
import type { DeathRegister } from "./death-register.ts";
import { type ModuleNetwork, openPages } from "./module-pages.ts";

export interface HostedOptions {
  readonly host: ModuleHost;
  readonly deaths: DeathRegister;
  /** For environments that are played in one. */
  readonly browsers: Browsers;
  readonly network: ModuleNetwork;
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
  /** What is played in a browser: pages of ours, judged by the module. */
  #pages: Environment | undefined;
  /** What ended the process meanwhile. */
  #death: unknown;
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
    const answer = (await this.#counted(async () => {
      this.#child = await lease.host.running(signal);
      const call: ResetCall = { session: this.#session, kind, args, seed };
      return this.#child.call("reset", call, { signal });
    })) as ResetResult | BegunTask;
    if (!isBegunTask(answer)) return answer;
    this.#pages = await this.#open(answer);
    return await this.#played(this.#pages.reset({ seed, signal }));
  }

  async step(action: unknown, { signal }: StepOptions): Promise<StepResult> {
    const child = this.#child;
    if (child === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "session: step needs a reset first");
    if (this.#pages !== undefined) return await this.#played(this.#pages.step(action, { signal }));
    const call: StepCall = { session: this.#session, action };
    return (await this.#counted(() => child.call("step", call, { signal }))) as StepResult;
  }

  async close(): Promise<void> {
    this.#closed = true;
    try {
      await this.#pages?.close();
      const call: CloseCall = { session: this.#session };
      if (this.#child?.isOver === false) await this.#child.call("close", call);
    } finally {
      this.#lease?.[Symbol.dispose]();
    }
  }

  #open(begun: BegunTask): Promise<Environment> {
    const { browsers, network } = this.#options;
    return openPages(begun, {
      ...{ browsers, network, session: this.#session },
      call: async (method, payload, signal) => {
        const child = this.#child as Child;
        return await this.#counted(() => child.call(method, payload, { signal }));
      },
    });
  }

  /** That the process has ended is told as such, whatever it was to the pages. */
  async #played<T>(work: Awaitable<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.#death ?? error;
    }
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (isProcessDeath(error) && this.#death === undefined) {
        this.#death = error;
        this.#options.deaths.note(this.#options.episodeId);
      }
      throw error;
    }
  }
}
