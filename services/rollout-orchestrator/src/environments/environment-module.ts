// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { ModuleCode } from "@whetstone/modules";
import type { Module } from "@whetstone/proto/types/v1/types";

/** The env-runner does not have the module: reset again, with its code. */
export class ModuleWanted extends WhetstoneError {
  constructor(message: string) {
    super("NOT_FOUND", message);
  }
}

export interface EnvironmentModuleOptions extends ModuleCode {
  /** What the job says of it. Absent: nothing. */
  readonly sandbox?: Module["sandbox"] | undefined;
}

/** A module as env-runners are told of it: by digest, and by code where that is wanted, one sender at a time for each. */
export class EnvironmentModule {
  readonly digest: string;
  readonly code: Uint8Array;
  readonly sandbox: Module["sandbox"] | undefined;
  readonly #sending = new Map<string, Promise<void>>();

  constructor({ digest, code, sandbox }: EnvironmentModuleOptions) {
    this.digest = digest;
    this.code = code;
    this.sandbox = sandbox;
  }

  /**
   * Asks without code; where that is wanted, the first who heard so sends it and the others wait for its outcome: a module of
   * 16 MiB does not go out once for each of thousands of episodes.
   *
   * @param runner  which env-runner it is
   */
  async ask<T>(runner: string, send: (code: Uint8Array | undefined) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send(undefined);
      } catch (error) {
        if (!(error instanceof ModuleWanted) || attempt === ATTEMPTS) throw error;
      }
      const sending = this.#sending.get(runner);
      if (sending === undefined) return await this.#lead(runner, send);
      await sending;
    }
  }

  async #lead<T>(runner: string, send: (code: Uint8Array) => Promise<T>): Promise<T> {
    const sent = send(this.code);
    const settled = sent.then(
      () => undefined,
      () => undefined,
    );
    this.#sending.set(
      runner,
      settled.finally(() => this.#sending.delete(runner)),
    );
    return sent;
  }
}

/** An env-runner that was restarted wants the code again. */
const ATTEMPTS = 5;
