// SPDX-License-Identifier: Apache-2.0
import { type Gate, policyLabel, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";
import { EngineControl } from "./engine-control.ts";
import type { Gateways } from "./gateways/every-gateway.ts";
import type { SeenEngine } from "./gateways/merge-engines.ts";
import type { Authority } from "../leading/lead.ts";

const DRAIN_MS = 60_000;
/** Of each step in which a replica of the gateway is told of an engine that others use. */
const ADMIT_MS = 10_000;
/** An engine that takes longer than this for its switch lets others begin theirs. */
const TURN_MS = 10_000;

/** Times what a late engine may take: so long after it took that it is given up at once. */
const AGAIN_AFTER = 10;

interface Running {
  readonly leaves: AbortController;
  readonly sinceMs: number;
}

export interface SwitchOptions {
  readonly client: Gateways;
  readonly logger: Logger;
  /** Of engines with https:// control URLs. */
  readonly connect?: ConstructorParameters<typeof EngineControl>[1];
  /** Whose epoch goes with every call to an engine; `client` says its own. */
  readonly lead?: Authority;
  readonly onSwitched?: (times: SwitchTimes) => void;
}

/** Of one engine, seconds. */
export interface SwitchTimes {
  /** Reading and verifying weights while it sampled on; undefined: it read them within its pause. */
  readonly stage: number | undefined;
  /** From the fence to the end of it: it sampled nothing. */
  readonly fenced: number;
}

/**
 * Brings one engine to a policy. One procedure serves the switch after a step, an engine that was restarted or comes from
 * another job, and a gateway that was restarted (ARCHITECTURE.md, step 10); any error leaves the engine fenced.
 */
export class EngineSwitch {
  readonly #options: SwitchOptions;
  readonly #controls = new Map<string, EngineControl>();
  /** Switches in progress, by engine. */
  readonly #running = new Map<string, Running>();
  /** When one was last given up for being late, by engine; milliseconds of `performance.now()`. */
  readonly #lateAt = new Map<string, number>();

  constructor(options: SwitchOptions) {
    this.#options = options;
  }

  /** An engine that is brought to a policy now is brought to no other meanwhile. */
  isRunning(engine: string): boolean {
    return this.#running.has(engine);
  }

  /** An engine leaves: a switch that waits for it ends now. */
  abandon(engine: string): void {
    this.#lateAt.delete(engine);
    this.#giveUp(engine);
  }

  /**
   * An engine is late: its switch may hold up the others for `limitMs`. One that took longer may do so again only after ten
   * times that. So one that hangs costs the others a tenth of their time, and one that took long to start gets in.
   */
  abandonLate(engine: string, limitMs: number): void {
    const running = this.#running.get(engine);
    if (!running) return;
    const now = performance.now();
    const wasLate = now - (this.#lateAt.get(engine) ?? -Infinity) < AGAIN_AFTER * limitMs;
    if (!wasLate && now - running.sinceMs < limitMs) return;
    if (!wasLate) this.#lateAt.set(engine, now);
    this.#giveUp(engine);
  }

  #giveUp(engine: string): void {
    const reason = new WhetstoneError("CANCELLED", `the switch of engine ${engine} was given up`);
    this.#running.get(engine)?.leaves.abort(reason);
  }

  /** @param turns  of the engines that share the policy. @throws what went wrong: then the engine serves nothing */
  async bring(engine: SeenEngine, policy: PolicyRecord, turns: Gate, signal: AbortSignal): Promise<void> {
    const leaves = new AbortController();
    this.#running.set(engine.id, { leaves, sinceMs: performance.now() });
    try {
      const until = AbortSignal.any([signal, leaves.signal]);
      if (!(await this.#admit(engine, policy, until))) await this.#switch(engine, policy, turns, until);
      this.#lateAt.delete(engine.id);
    } finally {
      this.#running.delete(engine.id);
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
  async closeControlsBut(engines: readonly Engine[]): Promise<void> {
    const kept = new Set(engines.map(controlUrlOf));
    for (const [url, control] of this.#controls) {
      if (kept.has(url)) continue;
      this.#controls.delete(url);
      await control[Symbol.asyncDispose]();
    }
  }
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

function controlUrlOf(engine: Engine): string {
  return engine.controlUrl || engine.url;
}

export function keyOf(policy: PolicyRecord): string {
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

export function serves(engine: Engine, policy: PolicyRecord): boolean {
  const { state, policy: served } = engine;
  return state === EngineState.SERVING && served?.label === labelOf(policy) && served.modelPath === policy.path;
}
