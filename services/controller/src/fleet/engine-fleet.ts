// SPDX-License-Identifier: Apache-2.0
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import type { Fleet, Served } from "../loop/ports.ts";
import { EngineShares } from "./engine-shares.ts";
import { EngineSwitch, type SwitchOptions } from "./engine-switch.ts";
import type { SeenEngine } from "./gateways/merge-engines.ts";
import { PolicyServing } from "./policy-serving.ts";

const LIST_MS = 10_000;
/** A gateway that does not answer holds up nobody: a policy that it still knows is replaced by the next one. */
const FORGET_MS = 2_000;

interface Options extends SwitchOptions {
  readonly onQuarantine: (engine: string, reason: string) => void;
  /** After the first failure of an engine; default 300. */
  readonly firstWaitMs?: number;
  /** What engines say that do not take the wanted weights, whenever that changes; empty: none does so. */
  readonly onBehind?: (words: string) => void;
  /** Jobs that have no engine because there are fewer than jobs, whenever that changes. */
  readonly onWithout?: (jobs: readonly string[]) => void;
}

/** The engines, and the jobs that share them: each engine holds the policy of one job. */
export class EngineFleet implements Fleet {
  readonly #options: Options;
  readonly #switches: EngineSwitch;
  readonly #shares = new EngineShares();
  /** By job, in order of arrival. */
  readonly #servings = new Map<string, PolicyServing>();
  #behind = "";
  #without: readonly string[] = [];

  constructor(options: Options) {
    this.#options = options;
    this.#switches = new EngineSwitch(options);
  }

  /** What jobs want engines to serve, in order of arrival; empty: no job runs here. */
  get wanted(): readonly PolicyRecord[] {
    return [...this.#servings.values()].map(({ policy }) => policy);
  }

  /** What the engine is brought to; undefined: nobody needs it. */
  wantedOf(engine: string): PolicyRecord | undefined {
    return this.#servings.get(this.#shares.of(engine) ?? "")?.policy ?? this.#onlyWanted();
  }

  /** An engine leaves: a switch that waits for it ends now. */
  abandon(engine: string): void {
    this.#switches.abandon(engine);
  }

  /** An engine is late: its switch ends where it takes longer than it may, so that it does not hold up the others. */
  abandonLate(engine: string, limitMs: number): void {
    this.#switches.abandonLate(engine, limitMs);
  }

  async serve(policy: PolicyRecord, signal: AbortSignal, { weight = 1, repair }: Served = {}): Promise<number> {
    const { job } = policy;
    const { logger, onQuarantine, firstWaitMs } = this.#options;
    let serving = this.#servings.get(job);
    if (!serving) {
      serving = new PolicyServing(policy, weight, {
        ...{ logger, onQuarantine, switches: this.#switches, onLooked: () => this.#tellBehind() },
        engines: (until) => this.#enginesOf(job, until),
        ...(firstWaitMs !== undefined && { firstWaitMs }),
      });
      this.#servings.set(job, serving);
    }
    return serving.serve(policy, signal, repair);
  }

  /** Stops repairing engines for the policy; those that serve it go on, for whoever leads next. */
  async leave(policy: string): Promise<void> {
    await this.#servings.get(policy)?.end();
    this.#servings.delete(policy);
    this.#tellBehind();
    if (this.#servings.size === 0) this.#tellWithout([]);
  }

  async release(policy: string): Promise<void> {
    await this.leave(policy);
    // A gateway that is gone has forgotten.
    await this.#options.client.forgetPolicy({ policy }, { deadlineMs: FORGET_MS }).catch(() => undefined);
    if (this.#servings.size === 0) await this.#switches.closeControlsBut([]);
  }

  async #enginesOf(job: string, signal: AbortSignal): Promise<SeenEngine[]> {
    const { engines } = await this.#options.client.listEngines({}, { signal, deadlineMs: LIST_MS });
    await this.#switches.closeControlsBut(engines);
    const sharers = [...this.#servings].map(([name, { weight }]) => ({ name, weight }));
    const isFailing = (id: string): boolean => this.#servings.get(this.#shares.of(id) ?? "")?.isFailing(id) === true;
    this.#shares.update(engines, sharers, isFailing);
    this.#tellWithout(engines);
    return engines.filter(({ id }) => this.#shares.of(id) === job);
  }

  /** Before the first look, an engine is whose there is only one of. */
  #onlyWanted(): PolicyRecord | undefined {
    return this.#servings.size === 1 ? this.wanted[0] : undefined;
  }

  #tellWithout(engines: readonly SeenEngine[]): void {
    const served = new Set(engines.map(({ id }) => this.#shares.of(id)));
    const without = engines.length === 0 ? [] : [...this.#servings.keys()].filter((job) => !served.has(job));
    if (without.join() === this.#without.join()) return;
    this.#without = without;
    this.#options.onWithout?.(without);
  }

  #tellBehind(): void {
    const words = [...this.#servings.values()].map(({ behind }) => behind).filter((each) => each !== "");
    const all = words.join("; ");
    if (all === this.#behind) return;
    this.#behind = all;
    this.#options.onBehind?.(all);
  }
}
