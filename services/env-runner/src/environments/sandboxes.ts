// SPDX-License-Identifier: Apache-2.0
import { ProcessBackend, type SandboxBackend, SandboxError } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";

/** The sandboxes of this process's environments. Which there can be is found out when the first environment needs one. */
export class Sandboxes implements AsyncDisposable {
  #backend: Promise<SandboxBackend> | undefined;

  /** @throws EpisodeError INFRASTRUCTURE that says what is missing; what was missing may be there the next time. */
  async backend(): Promise<SandboxBackend> {
    try {
      return await (this.#backend ??= ProcessBackend.start());
    } catch (error) {
      this.#backend = undefined;
      if (!(error instanceof SandboxError)) throw error;
      throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const backend = await this.#backend?.catch(() => undefined);
    await backend?.[Symbol.asyncDispose]();
  }
}
