// SPDX-License-Identifier: Apache-2.0
import { type OpenOptions, type Sandbox, type SandboxBackend, SandboxError } from "@whetstone/sandbox";

type Start = (image: string) => Promise<SandboxBackend>;

/** Pods whose pool is found by the image that a task names: tasks of a job may name several. */
export class PodsByImage implements SandboxBackend {
  readonly level = "pod";
  readonly #start: Start;
  readonly #backends = new Map<string, Promise<SandboxBackend>>();

  constructor(start: Start) {
    this.#start = start;
  }

  /** @throws SandboxError UNAVAILABLE when no image is named, or no pool has it */
  async open(options: OpenOptions = {}): Promise<Sandbox> {
    const { image } = options;
    if (image === undefined) throw noPool("tasks without an image need one");
    const starting = this.#backends.get(image) ?? this.#start(image);
    this.#backends.set(image, starting);
    const backend = await starting.catch((error: unknown) => {
      this.#backends.delete(image); // Its pool may be made later.
      throw error;
    });
    return await backend.open(options);
  }

  prepare(): Promise<never> {
    return Promise.reject(noPool("folders need one"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = await Promise.allSettled(this.#backends.values());
    for (const each of all) if (each.status === "fulfilled") await each.value[Symbol.asyncDispose]();
  }
}

function noPool(why: string): SandboxError {
  return new SandboxError("UNAVAILABLE", `sandbox.pool: name a SandboxPool: ${why}`);
}
