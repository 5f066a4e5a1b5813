// SPDX-License-Identifier: Apache-2.0
import { Gate, isAbort, raceSignal, sleep, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";
import { EngineAttempts } from "./engine-attempts.ts";
import { type EngineSwitch, keyOf, serves } from "./engine-switch.ts";
import type { SeenEngine } from "./gateways/merge-engines.ts";
import { WeightRepair } from "./weight-repair.ts";

/** How often engines are looked at between switches. */
const REPAIR_EVERY_MS = 300;

export interface ServingDeps {
  readonly logger: Logger;
  readonly switches: EngineSwitch;
  /** The job's share of the engines, as it is now. */
  engines(signal: AbortSignal): Promise<SeenEngine[]>;
  readonly onQuarantine: (engine: string, reason: string) => void;
  /** Something may have changed of what `behind` says. */
  readonly onLooked: () => void;
  /** After the first failure of an engine; default 300. */
  readonly firstWaitMs?: number;
}

/** Brings a job's engines to its newest policy and keeps them there. What fails is tried again. */
export class PolicyServing {
  readonly weight: number;
  readonly #deps: ServingDeps;
  readonly #attempts: EngineAttempts;
  readonly #repair: WeightRepair;
  #policy: PolicyRecord;
  #keeper: { stop: AbortController; done: Promise<void> } | undefined;
  #turn: Promise<void> = Promise.resolve();
  #behind = "";

  constructor(policy: PolicyRecord, weight: number, deps: ServingDeps) {
    this.#deps = deps;
    this.weight = weight;
    this.#policy = policy;
    this.#attempts = new EngineAttempts(deps.firstWaitMs);
    this.#repair = new WeightRepair(deps.logger);
  }

  get policy(): PolicyRecord {
    return this.#policy;
  }

  /** What engines say that do not take the policy, or that there is none for it; "": all is well. */
  get behind(): string {
    return this.#behind;
  }

  /** Whether the engine has failed to take the policy more than once. */
  isFailing(engine: string): boolean {
    return this.#attempts.behind([{ id: engine }], keyOf(this.#policy)) !== "";
  }

  /** @throws ENGINE_FAILED with the engines' words when every one of them refuses the policy again and again */
  async serve(policy: PolicyRecord, signal: AbortSignal, repair?: () => Promise<void>): Promise<number> {
    this.#policy = policy;
    this.#repair.serve(keyOf(policy), repair);
    for (;;) {
      const { serving, verdict } = await this.#pass(signal).catch((error: unknown) => this.#passFailed(error, signal));
      this.#keeper ??= this.#keep();
      if (serving > 0) return serving;
      if (verdict !== undefined) throw refused(policy, verdict);
      await sleep(REPAIR_EVERY_MS, signal);
    }
  }

  async end(): Promise<void> {
    this.#keeper?.stop.abort();
    await this.#keeper?.done;
    this.#keeper = undefined;
  }

  #keep(): { stop: AbortController; done: Promise<void> } {
    const stop = new AbortController();
    const loop = async (): Promise<void> => {
      while (!stop.signal.aborted) {
        await sleep(REPAIR_EVERY_MS, stop.signal);
        await this.#pass(stop.signal).catch((error: unknown) => this.#passFailed(error, stop.signal));
      }
    };
    return { stop, done: loop().catch(() => undefined) };
  }

  /** One look at the job's engines; passes never overlap. */
  async #pass(signal: AbortSignal): Promise<Look> {
    const turn = this.#turn;
    const mine = Promise.withResolvers<void>();
    this.#turn = turn.then(() => mine.promise);
    try {
      await raceSignal(turn, signal);
      const engines = await this.#deps.engines(signal);
      this.#attempts.keepOnly(engines);
      const turns = new Gate(Math.max(1, Math.floor(engines.length / 2)));
      const served = await Promise.all(engines.map((engine) => this.#bring(engine, turns, signal)));
      this.#behind = this.#attempts.behind(engines, keyOf(this.#policy));
      this.#deps.onLooked();
      return { serving: served.filter(Boolean).length, verdict: this.#verdict(engines, keyOf(this.#policy)) };
    } finally {
      mine.resolve();
    }
  }

  /** Undefined: it may still be served, as when it is being repaired. */
  #verdict(engines: readonly Engine[], key: string): string | undefined {
    if (this.#attempts.isRefused(engines, key)) {
      this.#repair.refused(key, () => {
        this.#attempts.forgetAll();
      });
    }
    return this.#repair.isRunning(key) ? undefined : this.#attempts.verdict(engines, key);
  }

  #passFailed(error: unknown, signal: AbortSignal): Look {
    if (signal.aborted || isOver(error)) throw error;
    this.#deps.logger.warn("fleet_unreachable", { error });
    return { serving: 0, verdict: undefined };
  }

  async #bring(engine: SeenEngine, turns: Gate, signal: AbortSignal): Promise<boolean> {
    const policy = this.#policy;
    if (engine.views.every(({ engine: view }) => serves(view, policy))) return true;
    // It comes from another job, which is still at it.
    if (this.#deps.switches.isRunning(engine.id)) return false;
    if (!this.#attempts.isDue(engine.id, keyOf(policy), performance.now())) return serves(engine, policy);
    if (engine.state === EngineState.QUARANTINED) this.#deps.onQuarantine(engine.id, engine.reason);
    try {
      await this.#deps.switches.bring(engine, policy, turns, signal);
      this.#attempts.succeeded(engine.id);
      return true;
    } catch (error) {
      if ((signal.aborted && isAbort(error)) || isOver(error)) throw error;
      this.#attempts.failed(engine.id, keyOf(policy), error, performance.now());
      this.#deps.logger.warn("engine_switch_failed", { engine: engine.id, error });
      return serves(engine, policy);
    }
  }
}

interface Look {
  /** Engines that serve the wanted policy now. */
  readonly serving: number;
  /** Why none ever will. */
  readonly verdict: string | undefined;
}

function refused(policy: PolicyRecord, verdict: string): WhetstoneError {
  const message = `every engine refuses the weights of version ${policy.policyVersion} (${policy.path}): ${verdict}`;
  return new WhetstoneError("ENGINE_FAILED", message, { retry: "never" });
}

/** Another controller leads: trying again would only disturb it. */
function isOver(error: unknown): boolean {
  return error instanceof WhetstoneError && error.code === "STALE_EPOCH";
}
