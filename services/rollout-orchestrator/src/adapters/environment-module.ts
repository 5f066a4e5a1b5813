// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { ModuleCode } from "@whetstone/modules";

/** The env-runner does not have the module: reset again, with its code. */
export class ModuleWanted extends WhetstoneError {
  constructor(message: string) {
    super("NOT_FOUND", message);
  }
}

export interface EnvironmentModuleOptions extends ModuleCode {
  /** The environments that it defines; other kinds are the env-runner's own. */
  readonly kinds: ReadonlySet<string>;
}

/** A module as the env-runner is told of it: by digest, and by code where that is wanted, one sender at a time. */
export class EnvironmentModule {
  readonly digest: string;
  readonly code: Uint8Array;
  readonly kinds: ReadonlySet<string>;
  #sending: Promise<void> | undefined;

  constructor({ digest, code, kinds }: EnvironmentModuleOptions) {
    this.digest = digest;
    this.code = code;
    this.kinds = kinds;
  }

  /**
   * Asks without code; where that is wanted, the first who heard so sends it and the others wait for its outcome: a module of
   * 16 MiB does not go out once for each of thousands of episodes.
   */
  async ask<T>(send: (code: Uint8Array | undefined) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send(undefined);
      } catch (error) {
        if (!(error instanceof ModuleWanted) || attempt === ATTEMPTS) throw error;
      }
      if (this.#sending === undefined) return await this.#lead(send);
      await this.#sending;
    }
  }

  async #lead<T>(send: (code: Uint8Array) => Promise<T>): Promise<T> {
    const sent = send(this.code);
    const settled = sent.then(
      () => undefined,
      () => undefined,
    );
    this.#sending = settled.finally(() => (this.#sending = undefined));
    return sent;
  }
}

/** An env-runner that was restarted wants the code again. */
const ATTEMPTS = 5;
