// SPDX-License-Identifier: Apache-2.0
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { isAbandoned } from "../owned-name.ts";
import type { Engine, FoundContainer } from "./engine.ts";

// Containers end with their owner and are then removed by the engine. What is left: one that was made and not yet started when its
// owner was killed, and one whose daemon hangs.

const EVERY_MS = 30_000;
/** Its owner closes it, or its daemon ends by itself: both come before. */
const GRACE_MS = 10_000;

/** Where a process id means the same process: this machine since it was started, and this process namespace of it. */
export function machineId(): string {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot}/${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return hostname();
  }
}

/** Removes containers of sandboxes whose owner is gone, or whose time is over: now and at intervals. */
export class Reaper implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #machine: string;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | undefined;

  constructor(engine: Engine, machine: string, everyMs = EVERY_MS) {
    this.#engine = engine;
    this.#machine = machine;
    this.#timer = setInterval(() => void this.run().catch(() => undefined), everyMs);
    this.#timer.unref();
  }

  /** @throws where the engine does not answer; the next turn tries again */
  run(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#running?.catch(() => undefined);
  }

  async #run(): Promise<void> {
    const left = (await this.#engine.list()).filter((each) => isLeft(each, this.#machine, Date.now()));
    await Promise.allSettled(left.map(({ id }) => this.#engine.remove(id)));
  }
}

export function isLeft({ name, machine, expiresAt }: Omit<FoundContainer, "id">, here: string, now: number): boolean {
  return now > expiresAt + GRACE_MS || (machine === here && isAbandoned(name));
}
