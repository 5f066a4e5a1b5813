// SPDX-License-Identifier: Apache-2.0
import { Gate, isAbort, policyLabel, raceSignal, sleep, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";
import type { Fleet } from "../loop/ports.ts";
import { EngineAttempts } from "./engine-attempts.ts";
import { EngineControl } from "./engine-control.ts";
import type { Gateways } from "./gateways/every-gateway.ts";
import type { SeenEngine } from "./gateways/merge-engines.ts";
import { WeightRepair } from "./weight-repair.ts";
import type { Authority } from "../leading/lead.ts";

/** How often engines are looked at between switches. */
const REPAIR_EVERY_MS = 300;
const DRAIN_MS = 60_000;
/** Of each step in which a replica of the gateway is told of an engine that others use. */
const ADMIT_MS = 10_000;
/** An engine that takes longer than this for its switch lets others begin theirs. */
const TURN_MS = 10_000;
/** A gateway that does not answer holds up nobody: a policy that it still knows is replaced by the next one. */
const FORGET_MS = 2_000;

interface Options {
  readonly client: Gateways;
  readonly logger: Logger;
  readonly onQuarantine: (engine: string, reason: string) => void;
  /** Of engines with https:// control URLs. */
  readonly connect?: ConstructorParameters<typeof EngineControl>[1];
  /** After the first failure of an engine; default 300. */
  readonly firstWaitMs?: number;
  /** Whose epoch goes with every call to an engine; `client` says its own. */
  readonly lead?: Authority;
  readonly onSwitched?: (times: SwitchTimes) => void;
  /** What engines say that do not take the wanted weights, whenever that changes; empty: none does so. */
  readonly onBehind?: (words: string) => void;
}

/** Of one engine, seconds. */
export interface SwitchTimes {
  /** Reading and verifying weights while it sampled on; undefined: it read them within its pause. */
  readonly stage: number | undefined;
  /** From the fence to the end of it: it sampled nothing. */
  readonly fenced: number;
}

/**
 * Brings engines to a policy and keeps them there. One procedure serves the switch after a step, an engine that was
 * restarted, and a gateway that was (ARCHITECTURE.md, step 10); any error leaves the engine fenced, and it is tried again.
 */
export class EngineFleet implements Fleet {
  readonly #options: Options;
  readonly #controls = new Map<string, EngineControl>();
  /** Switches in progress, by engine. */
  readonly #switches = new Map<string, AbortController>();
  readonly #attempts: EngineAttempts;
  #wanted: PolicyRecord | undefined;
  #keeper: { stop: AbortController; done: Promise<void> } | undefined;
  readonly #repair: WeightRepair;
  #turn: Promise<void> = Promise.resolve();
  #behind = "";

  constructor(options: Options) {
    this.#options = options;
    this.#attempts = new EngineAttempts(options.firstWaitMs);
    this.#repair = new WeightRepair(options.logger);
  }

  /** What engines are brought to; undefined: no job runs here. */
  get wanted(): PolicyRecord | undefined {
    return this.#wanted;
  }

  /** An engine leaves, or takes too long: a switch that waits for it ends now, so that it does not hold up the others. */
  abandon(engine: string): void {
    this.#switches.get(engine)?.abort(new WhetstoneError("CANCELLED", `the switch of engine ${engine} was given up`));
  }

  /** @throws ENGINE_FAILED with the engines' words when every one of them refuses the policy again and again */
  async serve(policy: PolicyRecord, signal: AbortSignal, repair?: () => Promise<void>): Promise<number> {
    this.#wanted = policy;
    this.#repair.serve(keyOf(policy), repair);
    for (;;) {
      const { serving, verdict } = await this.#pass(signal).catch((error: unknown) => this.#passFailed(error, signal));
      this.#keeper ??= this.#keep();
      if (serving > 0) return serving;
      if (verdict !== undefined) throw refused(policy, verdict);
      await sleep(REPAIR_EVERY_MS, signal);
    }
  }

  async release(policy: string): Promise<void> {
    this.#keeper?.stop.abort();
    await this.#keeper?.done;
    this.#keeper = undefined;
    this.#wanted = undefined;
    this.#tellBehind([]);
    // A gateway that is gone has forgotten.
    await this.#options.client.forgetPolicy({ policy }, { deadlineMs: FORGET_MS }).catch(() => undefined);
    for (const control of this.#controls.values()) await control[Symbol.asyncDispose]();
    this.#controls.clear();
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

  /** One look at all engines; passes never overlap. */
  async #pass(signal: AbortSignal): Promise<Look> {
    const turn = this.#turn;
    const mine = Promise.withResolvers<void>();
    this.#turn = turn.then(() => mine.promise);
    try {
      await raceSignal(turn, signal);
      const { engines } = await this.#options.client.listEngines({}, { signal, deadlineMs: 10_000 });
      await this.#closeControlsBut(engines);
      this.#attempts.keepOnly(engines);
      const turns = new Gate(Math.max(1, Math.floor(engines.length / 2)));
      const served = await Promise.all(engines.map((engine) => this.#bring(engine, turns, signal)));
      this.#tellBehind(engines);
      const verdict = this.#wanted && this.#verdict(engines, keyOf(this.#wanted));
      return { serving: served.filter(Boolean).length, verdict };
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

  #tellBehind(engines: readonly Engine[]): void {
    const words = this.#wanted ? this.#attempts.behind(engines, keyOf(this.#wanted)) : "";
    if (words === this.#behind) return;
    this.#behind = words;
    this.#options.onBehind?.(words);
  }

  #passFailed(error: unknown, signal: AbortSignal): Look {
    if (signal.aborted || isOver(error)) throw error;
    this.#options.logger.warn("fleet_unreachable", { error });
    return { serving: 0, verdict: undefined };
  }

  async #bring(engine: SeenEngine, turns: Gate, signal: AbortSignal): Promise<boolean> {
    const policy = this.#wanted;
    if (!policy) return false;
    if (engine.views.every(({ engine: view }) => serves(view, policy))) return true;
    if (!this.#attempts.isDue(engine.id, keyOf(policy), performance.now())) return serves(engine, policy);
    if (engine.state === EngineState.QUARANTINED) this.#options.onQuarantine(engine.id, engine.reason);
    const leaves = new AbortController();
    this.#switches.set(engine.id, leaves);
    try {
      const until = AbortSignal.any([signal, leaves.signal]);
      if (!(await this.#admit(engine, policy, until))) await this.#switch(engine, policy, turns, until);
      this.#attempts.succeeded(engine.id);
      return true;
    } catch (error) {
      if ((signal.aborted && isAbort(error)) || isOver(error)) throw error;
      this.#attempts.failed(engine.id, keyOf(policy), error, performance.now());
      this.#options.logger.warn("engine_switch_failed", { engine: engine.id, error });
      return serves(engine, policy);
    } finally {
      this.#switches.delete(engine.id);
    }
  }

  /**
   * A replica of the gateway that has just begun, or was away during a switch, is told what an engine serves which goes on
   * sampling for the others meanwhile. It is verified as after a switch; nothing is paused.
   * @returns false where the engine has to be switched
   */
  async #admit(engine: SeenEngine, policy: PolicyRecord, signal: AbortSignal): Promise<boolean> {
    if (!serves(engine, policy)) return false;
    const control = this.#controlOf(controlUrlOf(engine));
    if (!(await isLoaded(engine, policy, control, signal)) || (await control.isPaused(signal))) return false;
    const { id } = engine;
    const behind = engine.views
      .filter(({ engine: view }) => !serves(view, policy))
      .map(({ gateway }) => gateway.client);
    // What such a replica asked for under an older label is taken back: its answers would be discarded (I5).
    await Promise.all(behind.map((gateway) => gateway.fenceEngine({ id }, { signal, deadlineMs: ADMIT_MS })));
    await Promise.all(behind.map((gateway) => gateway.drainEngine({ id }, { signal, deadlineMs: ADMIT_MS })));
    await control.canary(labelOf(policy), signal);
    const served = servedOf(policy);
    await Promise.all(
      behind.map((gateway) => gateway.unfenceEngine({ id, policy: served }, { signal, deadlineMs: ADMIT_MS })),
    );
    this.#options.logger.info("engine_admitted", { engine: id, label: labelOf(policy), gateways: behind.length });
    return true;
  }

  /**
   * Reads the weights while it samples on, and switches. Half of the engines go on sampling meanwhile; those that can read only
   * within their pause do it all at once, since a step would wait for one after the other.
   */
  async #switch(engine: Engine, policy: PolicyRecord, turns: Gate, signal: AbortSignal): Promise<void> {
    const control = this.#controlOf(controlUrlOf(engine));
    const startedAt = performance.now();
    const isStaged = !(await isLoaded(engine, policy, control, signal)) && (await control.stageWeights(policy, signal));
    const stage = isStaged ? secondsSince(startedAt) : undefined;
    using _turn = isStaged ? await shortTurn(turns, signal) : undefined;
    const fencedAt = performance.now();
    await this.#switchStaged(engine, policy, control, signal);
    const times = { stage, fenced: secondsSince(fencedAt) };
    this.#options.logger.debug("engine_switched", { engine: engine.id, label: labelOf(policy), ...times });
    this.#options.onSwitched?.(times);
  }

  /** fence → pause → drain → load → label → verify → resume → unfence. */
  async #switchStaged(
    engine: Engine,
    policy: PolicyRecord,
    control: EngineControl,
    signal: AbortSignal,
  ): Promise<void> {
    const { client } = this.#options;
    const label = labelOf(policy);
    await client.fenceEngine({ id: engine.id }, { signal });
    // A repeated pause would abort what was queued meanwhile, so it is only sent to an engine that runs.
    if (!(await control.isPaused(signal))) await control.pause(signal);
    await client.drainEngine({ id: engine.id }, { signal, deadlineMs: DRAIN_MS });
    if (!(await isLoaded(engine, policy, control, signal))) await this.#load(control, policy, label, signal);
    await control.resume(signal);
    if (await control.isPaused(signal))
      throw new WhetstoneError("CONTRACT_VIOLATION", `engine ${engine.id} is paused after resume`);
    await control.canary(label, signal);
    await client.unfenceEngine({ id: engine.id, policy: servedOf(policy) }, { signal });
  }

  /** The label changes only after a complete load, and is read back (I7). */
  async #load(control: EngineControl, policy: PolicyRecord, label: string, signal: AbortSignal): Promise<void> {
    await control.loadWeights(policy.path, signal);
    await control.setLabel(label, signal);
    const reported = await control.label(signal);
    if (reported !== label)
      throw new WhetstoneError("CONTRACT_VIOLATION", `the engine reports ${reported} after ${label} was set`);
  }

  #controlOf(url: string): EngineControl {
    let control = this.#controls.get(url);
    if (!control)
      this.#controls.set(url, (control = new EngineControl(url, this.#options.connect, this.#options.lead)));
    return control;
  }

  /** Engines on pods come back under other addresses. */
  async #closeControlsBut(engines: readonly Engine[]): Promise<void> {
    const kept = new Set(engines.map(controlUrlOf));
    for (const [url, control] of this.#controls) {
      if (kept.has(url)) continue;
      this.#controls.delete(url);
      await control[Symbol.asyncDispose]();
    }
  }
}

interface Look {
  /** Engines that serve the wanted policy now. */
  readonly serving: number;
  /** Why none ever will. */
  readonly verdict: string | undefined;
}

/** The label alone is not enough: a deleted job of the same name may have left it behind. */
async function isLoaded(
  { policy: served }: Engine,
  policy: PolicyRecord,
  control: EngineControl,
  signal: AbortSignal,
): Promise<boolean> {
  return served?.modelPath === policy.path && (await control.label(signal)) === labelOf(policy);
}

async function shortTurn(turns: Gate, signal: AbortSignal): Promise<Disposable> {
  const turn = await turns.acquire(signal);
  const timer = setTimeout(() => turn[Symbol.dispose](), TURN_MS);
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      turn[Symbol.dispose]();
    },
  };
}

const secondsSince = (startedAt: number): number => (performance.now() - startedAt) / 1000;

function refused(policy: PolicyRecord, verdict: string): WhetstoneError {
  const message = `every engine refuses the weights of version ${policy.policyVersion} (${policy.path}): ${verdict}`;
  return new WhetstoneError("ENGINE_FAILED", message, { retry: "never" });
}

/** Another controller leads: trying again would only disturb it. */
function isOver(error: unknown): boolean {
  return error instanceof WhetstoneError && error.code === "STALE_EPOCH";
}

function controlUrlOf(engine: Engine): string {
  return engine.controlUrl || engine.url;
}

function keyOf(policy: PolicyRecord): string {
  return `${labelOf(policy)} ${policy.path}`;
}

/** What gateways are told of it. */
function servedOf(policy: PolicyRecord) {
  const { job, policyVersion, path: modelPath, tokenizerPath } = policy;
  return { policy: job, policyVersion, label: labelOf(policy), modelPath, tokenizerPath };
}

function labelOf({ job, policyVersion }: PolicyRecord): string {
  return policyLabel(job, policyVersion);
}

function serves(engine: Engine, policy: PolicyRecord): boolean {
  const { state, policy: served } = engine;
  return state === EngineState.SERVING && served?.label === labelOf(policy) && served.modelPath === policy.path;
}
