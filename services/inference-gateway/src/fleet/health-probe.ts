// SPDX-License-Identifier: Apache-2.0
import type { EngineEntry } from "./engine-entry.ts";
import type { Fleet } from "./fleet.ts";
import type { EngineClient } from "../engine/engine-client.ts";

export interface HealthProbeOptions {
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** Failures in a row after which an engine is dead. */
const MAX_FAILURES = 3;

/** Asks the serving engines how they are; one that does not answer is quarantined, which frees the calls stuck there. */
export class HealthProbe {
  readonly #fleet: Fleet;
  readonly #engines: EngineClient;
  readonly #options: HealthProbeOptions;
  readonly #failures = new Map<EngineEntry, number>();
  readonly #asking = new Set<EngineEntry>();
  readonly #timer: NodeJS.Timeout;

  constructor(fleet: Fleet, engines: EngineClient, options: HealthProbeOptions) {
    this.#fleet = fleet;
    this.#engines = engines;
    this.#options = options;
    this.#timer = setInterval(() => {
      this.#round();
    }, options.intervalMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #round(): void {
    for (const engine of this.#fleet.engines.values()) {
      if (engine.state !== "serving") this.#failures.delete(engine);
      else if (!this.#asking.has(engine)) void this.#ask(engine);
    }
  }

  async #ask(engine: EngineEntry): Promise<void> {
    this.#asking.add(engine);
    const healthy = await this.#engines.healthy(engine, this.#options.timeoutMs);
    this.#asking.delete(engine);
    const failures = healthy ? 0 : (this.#failures.get(engine) ?? 0) + 1;
    this.#failures.set(engine, failures);
    if (failures < MAX_FAILURES || engine.state !== "serving") return;
    this.#fleet.quarantine(engine, `${failures} health checks failed in a row`);
  }
}
