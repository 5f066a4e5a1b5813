// SPDX-License-Identifier: Apache-2.0
import { LEVELS, ProcessBackend, type SandboxBackend, SandboxError, type SandboxLevel } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { LibraryStore } from "@whetstone/swe";
import { z } from "zod";

/** What environments with a sandbox take as an argument. */
export const LeastLevel = z
  .enum(LEVELS)
  .optional()
  .describe("refused where only a weaker sandbox can be had; A is the strongest (docs/sandboxes.md)");

/** The sandboxes of this process's environments. Which there can be is found out when the first environment needs one. */
export class Sandboxes implements AsyncDisposable {
  #backend: Promise<SandboxBackend> | undefined;
  /** By folder: what is prepared in them is shared by all episodes. */
  readonly #libraries = new Map<string, LibraryStore>();

  /** @throws EpisodeError INFRASTRUCTURE that says what is missing; what was missing may be there the next time. */
  async backend(least: SandboxLevel = "C"): Promise<SandboxBackend> {
    const backend = await this.#started();
    if (backend.level <= least) return backend;
    const message = `sandboxLevel: ${least} is wanted at least, and here is only level ${backend.level}`;
    throw new EpisodeError("INFRASTRUCTURE", message, { code: "FAILED_PRECONDITION" });
  }

  async #started(): Promise<SandboxBackend> {
    try {
      return await (this.#backend ??= ProcessBackend.start());
    } catch (error) {
      this.#backend = undefined;
      if (!(error instanceof SandboxError)) throw error;
      throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
    }
  }

  /** @throws EpisodeError INFRASTRUCTURE */
  async libraries(folder: string, least?: SandboxLevel): Promise<{ backend: SandboxBackend; libraries: LibraryStore }> {
    const backend = await this.backend(least);
    const libraries = this.#libraries.get(folder) ?? new LibraryStore(folder, backend);
    this.#libraries.set(folder, libraries);
    return { backend, libraries };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const libraries of this.#libraries.values()) await libraries[Symbol.asyncDispose]();
    const backend = await this.#backend?.catch(() => undefined);
    await backend?.[Symbol.asyncDispose]();
  }
}
