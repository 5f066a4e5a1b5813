// SPDX-License-Identifier: Apache-2.0
import type { RunnerDrains } from "./runner-drains.ts";
import { DRAINING_SINCE, runnerAddress } from "./schema.ts";
import type { PoolPlan } from "./plan.ts";
import type { PodWrites } from "./pod-writes.ts";
import type { PoolMemory } from "./memory.ts";

/** Lets those that leave finish: the word on the pod first, then the word to the env-runner itself. */
export class PoolDrains {
  readonly #writes: PodWrites;
  readonly #runners: RunnerDrains;

  constructor(writes: PodWrites, runners: RunnerDrains) {
    this.#writes = writes;
    this.#runners = runners;
  }

  /** Written down before anybody acts on it, so that a successor goes on where we were. */
  async mark({ drain, undrain }: PoolPlan, signal: AbortSignal): Promise<void> {
    const since = new Date().toISOString();
    await Promise.all([
      ...drain.map((pod) => this.#writes.annotate(pod, { [DRAINING_SINCE]: since }, signal)),
      ...undrain.map(async (pod) => {
        await this.#runners.undo(runnerAddress(pod), signal);
        await this.#writes.annotate(pod, { [DRAINING_SINCE]: null }, signal);
      }),
    ]);
  }

  /** @returns true: one of them is empty now */
  async follow({ draining }: PoolPlan, { empty }: PoolMemory, drainMs: number, signal: AbortSignal): Promise<boolean> {
    const asked = draining.filter(({ terminating, ip, uid }) => !terminating && ip !== "" && !empty.has(uid));
    await Promise.all(
      asked.map(async (pod) => {
        const leftMs = (pod.drainingSince ?? Date.now()) + drainMs - Date.now();
        const open = await this.#runners.drain(runnerAddress(pod), leftMs, signal);
        const isDead = open === undefined && !pod.ready && pod.sessions === 0;
        if (open === 0 || isDead) empty.add(pod.uid);
      }),
    );
    return asked.some(({ uid }) => empty.has(uid));
  }
}
