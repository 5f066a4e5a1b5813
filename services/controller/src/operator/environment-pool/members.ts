// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { StoredPool } from "./schema.ts";
import type { PoolPlan } from "./plan.ts";
import { poolPodName, runnerPod } from "./pods.ts";
import type { PodWrites } from "./pod-writes.ts";
import type { PoolMemory } from "./memory.ts";
import { shortPass } from "../short-pass.ts";

/** Of one pool, so that several do not wait for each other. */
const CREATED_AT_ONCE = 4;
/** Then it looks again before it goes on: pools take turns, and what is known of a pool is never old. */
const CREATING_MS = 250;

export type TellPool = (pool: StoredPool, reason: string, message: string) => void;

/** Makes and deletes the pods of a pool, as the plan says. */
export class PoolMembers {
  readonly #writes: PodWrites;
  readonly #tell: TellPool;

  constructor(writes: PodWrites, tell: TellPool) {
    this.#writes = writes;
    this.#tell = tell;
  }

  async remove(pool: StoredPool, { remove }: PoolPlan, signal: AbortSignal): Promise<void> {
    await Promise.all(
      remove.map(async (pod) => {
        await this.#writes.remove(pod, signal);
        if (pod.ended) this.#tell(pool, "PodReplaced", `${pod.name}: ${pod.trouble || "its container ended"}`);
      }),
    );
  }

  /** @returns false: there was no time for all of them */
  async create(pool: StoredPool, { create }: PoolPlan, memory: PoolMemory, signal: AbortSignal): Promise<boolean> {
    memory.refused = "";
    if (memory.taken.size > 0) await this.#lookAtTaken(pool, memory, signal);
    const left = await shortPass(create, { atOnce: CREATED_AT_ONCE, ms: CREATING_MS }, (ordinal) =>
      this.#createOne(pool, ordinal, memory, signal),
    );
    if (memory.refused !== "") this.#tell(pool, "PodRefused", memory.refused);
    return left === 0;
  }

  async #createOne(pool: StoredPool, ordinal: number, memory: PoolMemory, signal: AbortSignal): Promise<void> {
    if (memory.refused !== "") return;
    try {
      await this.#writes.create(runnerPod(pool, ordinal), signal);
    } catch (error) {
      const { code, message } = WhetstoneError.from(error);
      if (code === "ALREADY_EXISTS") await this.#adopt(pool, ordinal, memory, signal);
      else if (code === "INVALID_ARGUMENT" || code === "PERMISSION_DENIED") memory.refused = message;
      else throw error;
    }
  }

  async #adopt({ metadata }: StoredPool, ordinal: number, memory: PoolMemory, signal: AbortSignal): Promise<void> {
    const whose = await this.#writes.whose(poolPodName(metadata.name, ordinal), metadata.uid, signal);
    if (whose === "another's") memory.taken.add(ordinal);
  }

  async #lookAtTaken({ metadata }: StoredPool, { taken }: PoolMemory, signal: AbortSignal): Promise<void> {
    for (const ordinal of taken) {
      const whose = await this.#writes.whose(poolPodName(metadata.name, ordinal), metadata.uid, signal);
      if (whose !== "another's") taken.delete(ordinal);
    }
  }
}
