// SPDX-License-Identifier: Apache-2.0
import { ConfigError, WhetstoneError } from "@whetstone/core";
import type { ServedName } from "@whetstone/proto/inference/v1/inference";
import type { Logger } from "@whetstone/telemetry";
import type { EngineClient } from "../engine/engine-client.ts";
import type { ModelFolders } from "../codec/model-folder.ts";
import type { Codec } from "../completion/complete.ts";
import type { EngineEntry, Intake, ServedModel } from "./engine-entry.ts";
import type { Fleet } from "./fleet.ts";
import type { FeedbackBox, Said } from "../served/feedback-box.ts";
import type { ServedNames } from "../served/served-names.ts";
import type { SessionTable } from "../sessions/session-table.ts";

export interface FleetControlDeps {
  readonly fleet: Fleet;
  readonly sessions: SessionTable;
  readonly served: ServedNames;
  readonly feedback: FeedbackBox;
  readonly engines: EngineClient;
  readonly folders: ModelFolders;
  readonly codecs: Map<string, Codec>;
  readonly logger: Logger;
  /** A fenced engine that has answered nothing for so long has answered all it had, milliseconds. */
  readonly drainQuietMs: number;
}

const MODELS_TIMEOUT_MS = 10_000;
/** How often a removal looks whether its caller has left. */
const REMOVE_LOOK_MS = 250;

/** What the controller does to the fleet. */
export class FleetControl {
  readonly #deps: FleetControlDeps;

  constructor(deps: FleetControlDeps) {
    this.#deps = deps;
  }

  get fleet(): Fleet {
    return this.#deps.fleet;
  }

  register(id: string, url: string, controlUrl = ""): EngineEntry {
    const known = this.fleet.engines.get(id);
    const engine = this.fleet.register(id, url, controlUrl);
    if (engine !== known) this.#deps.logger.info("engine_registered", { engine: id, url });
    return engine;
  }

  /**
   * Forgets an engine. What runs there may end within `drainMs`; the rest is taken back and goes on elsewhere.
   * @returns how many calls were taken back.
   */
  async remove(id: string, drainMs: number, signal: AbortSignal): Promise<number> {
    const engine = this.fleet.remove(id);
    if (engine === undefined) return 0;
    const until = performance.now() + drainMs;
    while (engine.leases.size > 0 && performance.now() < until && !signal.aborted)
      await this.#answersWithin(engine, Math.min(until - performance.now(), REMOVE_LOOK_MS));
    const revoked = engine.leases.size;
    while (engine.leases.size > 0) {
      this.fleet.revokeAll(engine);
      await this.#answersWithin(engine, REMOVE_LOOK_MS);
    }
    await this.#deps.engines.forget(engine);
    this.#deps.logger.info("engine_removed", { engine: id, revoked });
    return revoked;
  }

  fence(id: string): EngineEntry {
    const engine = this.#engine(id);
    this.fleet.fence(engine);
    return engine;
  }

  /**
   * Waits until nothing runs on the engine. A request that was on its way when the engine paused is queued there and
   * would run on the next weights, so once the engine has gone quiet, what is left is taken back and resubmitted.
   * @throws WhetstoneError FAILED_PRECONDITION when the engine takes calls, the signal's reason at the deadline.
   */
  async drain(id: string, signal: AbortSignal): Promise<EngineEntry> {
    const engine = this.#engine(id);
    if (engine.state === "serving") throw new WhetstoneError("FAILED_PRECONDITION", `engine "${id}" is not fenced`);
    while (engine.leases.size > 0) {
      signal.throwIfAborted();
      if (await this.#answersWithin(engine, this.#deps.drainQuietMs)) continue;
      this.fleet.revokeAll(engine);
    }
    return engine;
  }

  /**
   * @param check  throws when the caller may not do this any more: asking the engine takes a while.
   * @throws ConfigError when the folder cannot be used, UNAVAILABLE when the engine cannot be asked.
   */
  async unfence(id: string, served: ServedModel, check: () => void = () => undefined): Promise<EngineEntry> {
    const engine = this.#engine(id);
    const [codec, intake] = await Promise.all([this.#codec(served), this.#intake(engine)]);
    check();
    if (this.#engine(id) !== engine)
      throw new WhetstoneError("CONFLICT", `engine "${id}" was registered anew meanwhile`, { retry: "safe" });
    this.#deps.codecs.set(served.policy, codec);
    this.fleet.unfence(engine, served, intake);
    this.#deps.logger.info("engine_unfenced", { engine: id, label: served.label });
    return engine;
  }

  /**
   * @param base  the label of the weights that they stand beside
   * @param check  throws when the caller may not do this any more: reading a tokenizer takes a while.
   * @throws WhetstoneError FAILED_PRECONDITION where the engine has other weights, ConfigError for a folder that cannot be used
   */
  async putAdapters(
    id: string,
    base: string,
    adapters: readonly ServedModel[],
    check: () => void = () => undefined,
  ): Promise<EngineEntry> {
    const engine = this.#engine(id);
    const codecs = await Promise.all(adapters.map((each) => this.#codec(each)));
    check();
    if (this.#engine(id) !== engine || engine.state !== "serving" || engine.served?.label !== base)
      throw new WhetstoneError("FAILED_PRECONDITION", `engine "${id}" does not serve ${base}`, { retry: "safe" });
    const labels = (all: Iterable<ServedModel>): string => [...all].map(({ label }) => label).join();
    const isNew = labels(adapters) !== labels(engine.adapters.values());
    adapters.forEach(({ policy }, index) => this.#deps.codecs.set(policy, codecs[index] as Codec));
    this.fleet.putAdapters(engine, adapters);
    if (isNew) this.#deps.logger.info("adapters_put", { engine: id, adapters: labels(adapters) });
    return engine;
  }

  /** Drops what is kept for a policy; answers how many sessions that were. */
  forget(policy: string): number {
    this.#deps.codecs.delete(policy);
    this.fleet.forget(policy);
    return this.#deps.sessions.forgetPolicy(policy);
  }

  /** All names that are served to clients with keys, in place of those before. */
  putServings(servings: readonly ServedName[]): void {
    this.#deps.served.put(servings, Date.now());
  }

  /** What clients said of answers and nobody has stored yet. */
  takeFeedback(stored: readonly string[]): Said[] {
    return this.#deps.feedback.take(stored);
  }

  #engine(id: string): EngineEntry {
    const engine = this.fleet.engines.get(id);
    if (engine === undefined) throw new WhetstoneError("NOT_FOUND", `no engine "${id}" is registered; see ListEngines`);
    return engine;
  }

  async #codec(served: ServedModel): Promise<Codec> {
    try {
      return await this.#deps.folders.load(served.tokenizerPath || served.modelPath);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const path = served.tokenizerPath ? "policy.tokenizer_path" : "policy.model_path";
      throw new ConfigError([{ path, reason }], { cause: error });
    }
  }

  async #intake(engine: EngineEntry): Promise<Intake> {
    try {
      return await this.#deps.engines.intake(engine, MODELS_TIMEOUT_MS);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new WhetstoneError("UNAVAILABLE", `engine "${engine.id}" at ${engine.url}: ${message}`, { cause });
    }
  }

  /** Whether an answer of the engine ends within the time. */
  #answersWithin(engine: EngineEntry, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (answered: boolean): void => {
        clearTimeout(timer);
        stopListening();
        resolve(answered);
      };
      const timer = setTimeout(done, ms, false);
      const stopListening = this.fleet.onRelease(engine, () => {
        done(true);
      });
    });
  }
}
