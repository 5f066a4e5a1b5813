// SPDX-License-Identifier: Apache-2.0
import { ProcessBackend, type SocketFolder } from "@whetstone/sandbox";
import type { Isolation } from "./launch.ts";
import { type GatewayReach, openReach, type ReachOptions } from "./reach.ts";

/** What a job says of its module's sandbox. */
export interface WantedIsolation {
  /** Without a sandbox: by the job's own word only. */
  readonly none: boolean;
  /** "host:port", beside the gateway. */
  readonly network: readonly string[];
}

export const DEFAULT_ISOLATION: WantedIsolation = { none: false, network: [] };

/** The sandboxes of one service's modules: whether there can be any is found out when the first is needed. */
export class ModuleSandboxes implements AsyncDisposable {
  readonly #reach: GatewayReach;
  #backend: Promise<ProcessBackend> | undefined;

  /** @param reach  absent: code of this service does not reach the gateway */
  constructor(reach: GatewayReach = {}) {
    this.#reach = reach;
  }

  isolationOf(wanted: WantedIsolation, reach = this.#reach): HostIsolation {
    return new HostIsolation(wanted, async () => {
      const backend = await this.#started();
      return { backend, ...reach, network: wanted.network };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#backend?.catch(() => undefined))?.[Symbol.asyncDispose]();
  }

  /** What was missing may be there the next time. */
  async #started(): Promise<ProcessBackend> {
    try {
      return await (this.#backend ??= ProcessBackend.start());
    } catch (error) {
      this.#backend = undefined;
      throw error;
    }
  }
}

/** What the processes of one job's module are kept in. */
export class HostIsolation {
  readonly #wanted: WantedIsolation;
  readonly #settings: () => Promise<ReachOptions>;
  #reach: Promise<{ readonly backend: ProcessBackend; readonly reach: SocketFolder }> | undefined;

  constructor(wanted: WantedIsolation, settings: () => Promise<ReachOptions>) {
    this.#wanted = wanted;
    this.#settings = settings;
  }

  /** @throws SandboxError where no sandbox can be had */
  async get(): Promise<Isolation> {
    if (this.#wanted.none) return "none";
    try {
      const { backend, reach } = await (this.#reach ??= this.#open());
      return { backend, sockets: reach.path };
    } catch (error) {
      this.#reach = undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    const opened = await this.#reach?.catch(() => undefined);
    await opened?.reach[Symbol.asyncDispose]();
  }

  async #open() {
    const settings = await this.#settings();
    return { backend: settings.backend, reach: await openReach(settings) };
  }
}
