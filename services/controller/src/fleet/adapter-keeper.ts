// SPDX-License-Identifier: Apache-2.0
import { isAbort, policyLabel, WhetstoneError } from "@whetstone/core";
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";
import type { Logger } from "@whetstone/telemetry";
import { EngineAttempts } from "./engine-attempts.ts";
import { EngineControl } from "./engine-control.ts";
import type { Gateways } from "./gateways/every-gateway.ts";
import type { Authority } from "../leading/lead.ts";

const LIST_MS = 5_000;
const PUT_MS = 10_000;
/** What is being answered by an adapter that is served no more; and how long a call may be on its way to an engine. */
const FINISH_MS = 60_000;

export interface AdapterKeeperDeps {
  readonly gateways: Pick<Gateways, "listEngines" | "putAdapters" | "forgetPolicy">;
  readonly logger: Logger;
  /** Of engines with https:// control URLs. */
  readonly connect?: ConstructorParameters<typeof EngineControl>[1];
  readonly lead?: Authority;
  /** Default: as above. */
  readonly finishMs?: number;
}

/** A policy by an adapter, and the policy whose weights it stands beside. */
export interface AdapterPolicy {
  readonly policy: string;
  readonly version: bigint;
  /** The adapter's folder. */
  readonly path: string;
  readonly base: string;
}

/** An engine, and the folders of its adapters by name. */
interface Place {
  readonly id: string;
  readonly control: EngineControl;
  readonly loaded: ReadonlyMap<string, string>;
}

/**
 * Brings LoRA adapters to the engines that serve the weights which they stand beside, and keeps them there: an engine that was
 * started again, or has just been given the weights, has none. Nothing is paused; each version has a name of its own.
 */
export class AdapterKeeper {
  readonly #deps: AdapterKeeperDeps;
  readonly #finishMs: number;
  readonly #controls = new Map<string, EngineControl>();
  /** Engines that are being brought to it. */
  readonly #running = new Map<string, Promise<void>>();
  /** Why engines do not take a policy's adapter. */
  readonly #failures = new Map<string, string>();
  /** By policy: an engine that does not take its adapter is left alone for longer and longer. */
  readonly #attempts = new Map<string, EngineAttempts>();
  /** Policies that gateways know. */
  readonly #given = new Set<string>();
  /** Since when nobody wants what an engine has, by engine and name. */
  readonly #unwanted = new Map<string, number>();

  constructor(deps: AdapterKeeperDeps) {
    this.#deps = deps;
    this.#finishMs = deps.finishMs ?? FINISH_MS;
  }

  /** Undefined: nothing is known against it. */
  failureOf(policy: string): string | undefined {
    return this.#failures.get(policy);
  }

  /** One look. Engines are brought to it meanwhile. */
  async pass(wanted: readonly AdapterPolicy[], signal: AbortSignal): Promise<void> {
    if (wanted.length === 0 && this.#given.size === 0) return;
    const { gateways } = this.#deps;
    const { engines, waitingCalls } = await gateways.listEngines({}, { signal, deadlineMs: LIST_MS });
    for (const engine of engines) {
      const own = wanted.filter(({ base }) => base === engine.policy?.policy);
      if (engine.state !== EngineState.SERVING || this.#running.has(engine.id)) continue;
      if (own.length > 0 || engine.adapters.length > 0) this.#begin(engine, own, waitingCalls, signal);
    }
    const policies = new Set(wanted.map(({ policy }) => policy));
    for (const [policy, attempts] of this.#attempts) {
      if (policies.has(policy)) attempts.keepOnly(engines);
      else this.#attempts.delete(policy);
    }
    await this.#forgetAllBut(policies, engines, signal);
  }

  /** Engines go on with what they have, for whoever leads next. */
  async end(): Promise<void> {
    await Promise.all(this.#running.values());
    await Promise.all([...this.#controls.values()].map((control) => control[Symbol.asyncDispose]()));
    this.#controls.clear();
    this.#given.clear();
    this.#failures.clear();
    this.#attempts.clear();
    this.#unwanted.clear();
  }

  #begin(
    engine: Engine,
    own: readonly AdapterPolicy[],
    waiting: Readonly<Record<string, number>>,
    signal: AbortSignal,
  ): void {
    const done = this.#bring(engine, own, waiting, signal)
      .catch((error: unknown) => {
        if (!signal.aborted) this.#deps.logger.warn("adapters_not_kept", { engine: engine.id, error });
      })
      .finally(() => this.#running.delete(engine.id));
    this.#running.set(engine.id, done);
  }

  async #bring(
    engine: Engine,
    own: readonly AdapterPolicy[],
    waiting: Readonly<Record<string, number>>,
    signal: AbortSignal,
  ): Promise<void> {
    const { id, policy: base } = engine;
    const control = this.#controlOf(engine.controlUrl || engine.url);
    const loaded = await control.adapters(signal);
    const ready: AdapterPolicy[] = [];
    for (const one of own) if (await this.#isReady({ id, control, loaded }, one, signal)) ready.push(one);
    const ending = engine.adapters.flatMap(({ policy, inFlight }) => {
      const isBusy = inFlight > 0 || (waiting[policy?.policy ?? ""] ?? 0) > 0;
      const isOwn = own.some((one) => one.policy === policy?.policy);
      return policy && isBusy && !isOwn && !this.#isOver(`${id} ${policy.label}`) ? [policy] : [];
    });
    for (const { policy } of ready) this.#given.add(policy);
    const adapters = [...ready.map((one) => servedOf(one, base?.tokenizerPath || base?.modelPath || "")), ...ending];
    const request = { id, baseLabel: base?.label ?? "", adapters };
    await this.#deps.gateways.putAdapters(request, { signal, deadlineMs: PUT_MS });
    const wanted = new Set(own.map(labelOf));
    for (const name of loaded.keys()) {
      if (wanted.has(name)) this.#unwanted.delete(`${id} ${name}`);
      else if (this.#isOver(`${id} ${name}`)) await this.#unload(control, id, name, signal);
    }
  }

  /** A name that another folder was loaded under is of a serving that was stopped: it is loaded anew. */
  async #isReady({ id, control, loaded }: Place, one: AdapterPolicy, signal: AbortSignal): Promise<boolean> {
    const label = labelOf(one);
    if (loaded.get(label) === one.path) return true;
    const attempts = this.#attemptsAt(one.policy);
    const what = `${label} ${one.path}`;
    if (!attempts.isDue(id, what, performance.now())) return false;
    try {
      if (loaded.has(label)) await control.unloadAdapter(label, signal);
      await control.loadAdapter(label, one.path, signal);
      await control.canary(label, signal, label);
      attempts.succeeded(id);
      this.#failures.delete(one.policy);
      this.#deps.logger.info("adapter_loaded", { label });
      return true;
    } catch (error) {
      if (signal.aborted && isAbort(error)) throw error;
      attempts.failed(id, what, error, performance.now());
      this.#failures.set(one.policy, WhetstoneError.from(error).message);
      this.#deps.logger.warn("adapter_not_loaded", { engine: id, label, error });
      return false;
    }
  }

  #attemptsAt(policy: string): EngineAttempts {
    let attempts = this.#attempts.get(policy);
    if (!attempts) this.#attempts.set(policy, (attempts = new EngineAttempts()));
    return attempts;
  }

  async #unload(control: EngineControl, engine: string, name: string, signal: AbortSignal): Promise<void> {
    await control.unloadAdapter(name, signal);
    this.#unwanted.delete(`${engine} ${name}`);
    this.#deps.logger.info("adapter_unloaded", { engine, label: name });
  }

  /** Whether what nobody wants any more has had its time. */
  #isOver(key: string): boolean {
    const since = this.#unwanted.get(key) ?? performance.now();
    this.#unwanted.set(key, since);
    return performance.now() - since >= this.#finishMs;
  }

  /** Gateways drop a policy's template when no engine answers for it any more. */
  async #forgetAllBut(wanted: ReadonlySet<string>, engines: readonly Engine[], signal: AbortSignal): Promise<void> {
    const held = new Set(engines.flatMap(({ adapters }) => adapters.map(({ policy }) => policy?.policy)));
    for (const policy of this.#given) {
      if (wanted.has(policy) || held.has(policy)) continue;
      await this.#deps.gateways.forgetPolicy({ policy }, { signal, deadlineMs: LIST_MS });
      this.#given.delete(policy);
      this.#failures.delete(policy);
    }
  }

  #controlOf(url: string): EngineControl {
    let control = this.#controls.get(url);
    if (!control) this.#controls.set(url, (control = new EngineControl(url, this.#deps.connect, this.#deps.lead)));
    return control;
  }
}

function labelOf({ policy, version }: AdapterPolicy): string {
  return policyLabel(policy, version);
}

function servedOf(one: AdapterPolicy, tokenizerPath: string) {
  const { policy, version: policyVersion, path: modelPath } = one;
  return { policy, policyVersion, label: labelOf(one), modelPath, tokenizerPath };
}
