// SPDX-License-Identifier: Apache-2.0
/** The local runtime: every service of Whetstone on this machine, started in order, kept alive, stopped without a trace. */
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { guardNats } from "@whetstone/messaging";

import { startLayers } from "./start-order.ts";
import type { DataPaths } from "./layout.ts";
import { endLeftovers } from "./leftovers.ts";
import type { Lock } from "./lock.ts";
import { acquireLock } from "./lock.ts";
import { openLogFile } from "./log-file.ts";
import { HOST } from "./ports.ts";
import type { ServiceSpec } from "./service-spec.ts";
import type { RuntimeState, ServiceState } from "./state-file.ts";
import { readState, removeState, writeState } from "./state-file.ts";
import { SupervisedService } from "./supervised-service.ts";

const WRITE_AGAIN_MS = 1_000;

export interface RuntimeOptions {
  readonly paths: DataPaths;
  /** Made after the lock is held, so that ports and model belong to this runtime alone. */
  readonly services: () => Promise<readonly ServiceSpec[]>;
  readonly model: string;
  /** Called after every change of a service. */
  readonly onChange?: (services: readonly ServiceState[]) => void;
}

export class Runtime {
  readonly #options: RuntimeOptions;
  readonly #instance = randomUUID();
  readonly #startedAt = new Date().toISOString();
  #lock: Lock | undefined;
  #layers: SupervisedService[][] = [];
  #phase: RuntimeState["phase"] = "starting";
  #stopped: Promise<void> | undefined;
  readonly #ending = new AbortController();
  #guard: Promise<void> | undefined;
  #again: NodeJS.Timeout | undefined;

  constructor(options: RuntimeOptions) {
    this.#options = options;
  }

  /** Starts everything; returns when all of it is ready. On failure stops what was started and throws the cause. */
  async start(): Promise<void> {
    const { paths } = this.#options;
    mkdirSync(paths.logs, { recursive: true });
    this.#lock = acquireLock(paths.lock, this.#instance);
    try {
      if (this.#lock.tookOver) await endLeftovers(readState(paths.state));
      await this.#startServices(await this.#options.services());
      this.#phase = this.#phase === "starting" ? "ready" : this.#phase;
      this.#guard = this.#guardNats().catch(() => {}); // The volume is gone: the server says so itself.
      this.#changed();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Stops in reverse order, layer by layer; then state and lock go. Safe to repeat. */
  stop(): Promise<void> {
    return (this.#stopped ??= this.#stopAll());
  }

  /** For the second Ctrl-C: no more waiting. */
  async kill(): Promise<void> {
    await Promise.all(this.#layers.flat().map((service) => service.stop(0)));
  }

  states(): ServiceState[] {
    return this.#layers.flat().map((service) => service.snapshot());
  }

  state(): RuntimeState {
    const { model } = this.#options;
    const base = { format: "whetstone.runtime/v1", instance: this.#instance, pid: process.pid } as const;
    return { ...base, startedAt: this.#startedAt, phase: this.#phase, model, services: this.states() };
  }

  async #startServices(specs: readonly ServiceSpec[]): Promise<void> {
    const { logs } = this.#options.paths;
    const make = (spec: ServiceSpec): SupervisedService =>
      new SupervisedService(spec, openLogFile(join(logs, `${spec.name}.log`)), () => this.#changed());
    this.#layers = startLayers(specs).map((layer) => layer.map(make));
    this.#changed();
    const ready = new Map<string, Promise<void>>();
    for (const service of this.#layers.flat())
      ready.set(service.spec.name, startWhenReady(service, ready, this.#ending.signal));
    await Promise.all(ready.values());
  }

  async #stopAll(): Promise<void> {
    this.#phase = "stopping";
    this.#ending.abort();
    this.#changed();
    for (const layer of this.#layers.toReversed()) await Promise.all(layer.map((service) => service.stop()));
    await this.#guard;
    clearTimeout(this.#again);
    removeState(this.#options.paths.state);
    this.#lock?.release();
    this.#lock = undefined;
  }

  #changed(): void {
    if (!this.#lock) return;
    this.#writeState();
    this.#options.onChange?.(this.states());
  }

  /** A full disk must not end the runtime: it writes its state once there is space. */
  #writeState(): void {
    clearTimeout(this.#again);
    if (!this.#lock || writeState(this.#options.paths.state, this.state())) return;
    this.#again = setTimeout(() => this.#writeState(), WRITE_AGAIN_MS);
    this.#again.unref();
  }

  /** A nats-server whose disk was full refuses writes until it is started again. */
  #guardNats(): Promise<void> {
    const nats = this.#layers.flat().find(({ spec }) => spec.ports["monitor"] !== undefined);
    if (!nats) return Promise.resolve();
    return guardNats({
      monitor: `http://${HOST}:${nats.spec.ports["monitor"]}`,
      storeDirectory: this.#options.paths.nats,
      signal: this.#ending.signal,
      restart: (why) => nats.restart(why),
    });
  }
}

/** Starts as soon as its own needs are ready, whatever the rest of its layer does. */
async function startWhenReady(
  service: SupervisedService,
  ready: ReadonlyMap<string, Promise<void>>,
  ending: AbortSignal,
): Promise<void> {
  const needs = service.spec.needs.map((name) => ready.get(name));
  await Promise.all([service.spec.prepare?.(ending), ...needs]);
  service.start();
  await service.firstReady;
}
