// SPDX-License-Identifier: Apache-2.0
import type { Logger } from "@whetstone/telemetry";
import type { OrchestratorConfig } from "../config.ts";
import { adaptLimit, initialLimit, type LimitReason, type LimitSettings, type LimitState } from "./adaptive-limit.ts";
import { engineLoad } from "./engine-load.ts";
import type { FairGate } from "./fair-gate.ts";

export interface SlotControlDeps {
  readonly config: Pick<
    OrchestratorConfig,
    "maxEpisodes" | "minEpisodes" | "loadIntervalMs" | "targetWaiting" | "targetKvUse"
  >;
  /** URLs of the gateway's replicas, in plain text. */
  readonly gateways: { readonly urls: readonly string[] };
  readonly gate: FairGate;
  /** Sessions that episodes here may have. Undefined: not known, or jobs play that need none. */
  readonly environmentSlots: () => Promise<number | undefined>;
  readonly onLimit: (state: LimitState) => void;
  readonly logger: Logger;
}

/** Opens and closes slots as engines and environments have room. */
export class SlotControl implements Disposable {
  readonly #deps: SlotControlDeps;
  readonly #settings: LimitSettings;
  readonly #timer: NodeJS.Timeout | undefined;
  #state: LimitState;
  #asking = false;
  #disposed = false;

  constructor(deps: SlotControlDeps) {
    const { maxEpisodes: ceiling, minEpisodes, loadIntervalMs, targetWaiting, targetKvUse } = deps.config;
    this.#deps = deps;
    this.#settings = { ceiling, floor: Math.min(minEpisodes, ceiling), targetWaiting, targetKvUse };
    this.#state = initialLimit(this.#settings);
    deps.onLimit(this.#state);
    if (loadIntervalMs > 0) this.#timer = setInterval(() => void this.#look(), loadIntervalMs).unref();
  }

  get reason(): LimitReason {
    return this.#state.reason;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    clearInterval(this.#timer);
  }

  /** Never throws. What answers late is looked at less often. */
  async #look(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    const { gateways, gate, onLimit, logger } = this.#deps;
    const [engines, environmentSlots] = await Promise.all([engineLoad(gateways.urls), this.#deps.environmentSlots()]);
    this.#asking = false;
    if (this.#disposed) return;
    const sample = { playing: gate.active, queued: gate.queued, engines, environmentSlots };
    this.#state = adaptLimit(this.#state, sample, this.#settings);
    const { open, reason } = this.#state;
    onLimit(this.#state);
    if (open === gate.limit) return;
    gate.limit = open;
    logger.debug("slots_open", { open, reason });
  }
}
