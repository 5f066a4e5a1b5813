// SPDX-License-Identifier: Apache-2.0
import type { EngineClient } from "../engine/engine-client.ts";
import type { EngineEntry } from "./engine-entry.ts";
import type { Fleet } from "./fleet.ts";

/** The answer to `GET /load`. Requests and shares; null: the engine does not say. */
export interface LoadReport {
  /** Engines that take calls. 0: weights are being switched, or there is none. */
  readonly serving: number;
  /** Requests that serving engines compute. */
  readonly running: number;
  /** Requests that wait: in engines, and here for an engine with room. */
  readonly waiting: number;
  /** Of those, the ones that wait here. */
  readonly queued: number;
  /** Of the fullest serving engine. */
  readonly kv_use: number | null;
  readonly engines: readonly EngineLine[];
}

interface EngineLine {
  readonly id: string;
  readonly state: string;
  /** Calls of this gateway on it. */
  readonly in_flight: number;
  readonly running: number | null;
  readonly waiting: number | null;
  readonly kv_use: number | null;
}

/** Engines are asked at most this often, however many ask here. */
const MAX_AGE_MS = 500;
const ENGINE_MS = 1_000;

/** What runs and waits on the engines, for whoever decides how many episodes to play. */
export class LoadReporter {
  readonly #fleet: Fleet;
  readonly #engines: Pick<EngineClient, "load">;
  #newest: Promise<LoadReport> | undefined;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(fleet: Fleet, engines: Pick<EngineClient, "load">) {
    this.#fleet = fleet;
    this.#engines = engines;
  }

  report(): Promise<LoadReport> {
    const now = performance.now();
    if (this.#newest !== undefined && now - this.#askedAt < MAX_AGE_MS) return this.#newest;
    this.#askedAt = now;
    return (this.#newest = this.#ask());
  }

  async #ask(): Promise<LoadReport> {
    const engines = await Promise.all(this.#fleet.engines.values().map((engine) => this.#line(engine)));
    const serving = engines.filter(({ state }) => state === "serving");
    const uses = serving.flatMap(({ kv_use: use }) => use ?? []);
    const queued = serving.length === 0 ? 0 : this.#fleet.waitingCalls();
    return {
      queued,
      serving: serving.length,
      running: serving.reduce((sum, { running, in_flight: inFlight }) => sum + (running ?? inFlight), 0),
      waiting: serving.reduce((sum, { waiting }) => sum + (waiting ?? 0), queued),
      kv_use: uses.length === 0 ? null : Math.max(...uses),
      engines,
    };
  }

  /** Engines that do not serve are not asked: they may be busy loading weights. */
  async #line(engine: EngineEntry): Promise<EngineLine> {
    const load = engine.state === "serving" ? await this.#engines.load(engine, ENGINE_MS) : undefined;
    const { running = null, waiting = null, kvUse = null } = load ?? {};
    return { id: engine.id, state: engine.state, in_flight: engine.leases.size, running, waiting, kv_use: kvUse };
  }
}
