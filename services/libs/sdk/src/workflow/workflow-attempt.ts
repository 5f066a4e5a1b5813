// SPDX-License-Identifier: Apache-2.0
import { abortReason, deriveSeed, WhetstoneError } from "@whetstone/core";
import type { Awaitable, Environment } from "../base-env.ts";
import { closeWithin } from "../engine/closing.ts";
import type { EpisodeRun } from "../engine/options.ts";
import { PhaseClock } from "../engine/phase-clock.ts";
import { type Failure, NO_FAILURE, type Phase } from "../failure.ts";
import type { RolloutClient } from "../rollout-client.ts";
import type { Step } from "../types.ts";
import { ManagedEnvironment, type PhaseOptions } from "./managed-environment.ts";
import type { ClientSource, WorkflowSettings } from "./options.ts";
import { Places } from "./places.ts";

/** What one try holds open, over the workflow and its sub-workflows: clients, environments, clocks. */
export class WorkflowAttempt implements Disposable {
  readonly run: EpisodeRun;
  readonly settings: WorkflowSettings;
  readonly places = new Places();
  /** The run's, and aborted when the try has ended: what a workflow left running must not go on. */
  readonly signal: AbortSignal;
  /** The phase that began last. */
  lastPhase: Phase = "model";
  modelMs = 0;
  environmentMs = 0;
  readonly #over = new AbortController();
  readonly #clients = new Map<string, RolloutClient>();
  readonly #clientOfStep = new WeakMap<Step, RolloutClient>();
  readonly #asked = new Map<string, number>();
  readonly #environments = new Set<ManagedEnvironment>();
  #trajectories = 0;
  #closed = false;

  constructor(settings: WorkflowSettings, run: EpisodeRun) {
    this.settings = settings;
    this.run = run;
    this.signal = this.#over.signal;
    if (run.signal.aborted) this.#onAbort();
    else run.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  readonly nextUid = (): string => `t${this.#trajectories++}`;

  /** Whether the policy answers a role, not a model of the role's own. */
  isPolicy(role: string): boolean {
    return !Object.hasOwn(this.settings.rolloutClients, role);
  }

  /** The default client, or the one that answers a role. */
  clientOf(role: string): RolloutClient {
    const source = this.isPolicy(role) ? undefined : this.settings.rolloutClients[role];
    const key = source ? `role ${role}` : "";
    const known = this.#clients.get(key);
    if (known) return known;
    const made = clientFrom(source ?? this.settings.rolloutClient, this.run);
    this.#clients.set(key, made);
    return made;
  }

  /** Different for each role and each of its calls, the same in every replay of the same calls. */
  nextSeed(role: string): number {
    const call = this.#asked.get(role) ?? 0;
    this.#asked.set(role, call + 1);
    return deriveSeed(this.run.seed, role, call);
  }

  /** Remembers who answered, for the client's own check at the end. */
  answered(step: Step, client: RolloutClient): void {
    this.#clientOfStep.set(step, client);
  }

  /** Bounded by the try and by the phase's own bound, if it has one: `work` gets the signal that says so. */
  async phase<T>(phase: Phase, work: (signal: AbortSignal) => Awaitable<T>, options: PhaseOptions = {}): Promise<T> {
    this.lastPhase = phase;
    const { signal = this.signal, spentMs = 0 } = options;
    using clock = new PhaseClock(signal, this.settings.phaseTimeoutsMs);
    clock.environmentMs = spentMs;
    try {
      return await clock.run(phase, () => work(clock.signal));
    } catch (error) {
      throw this.places.mark(error, phase);
    } finally {
      this.addTimes({ modelMs: clock.modelMs, environmentMs: clock.environmentMs - spentMs });
    }
  }

  addTimes({ modelMs, environmentMs }: { readonly modelMs: number; readonly environmentMs: number }): void {
    this.modelMs += modelMs;
    this.environmentMs += environmentMs;
  }

  /** What arrives after the end closes itself. */
  async open(make: () => Awaitable<Environment>): Promise<ManagedEnvironment> {
    const startedAt = performance.now();
    return this.phase("reset", async () => {
      const environment = new ManagedEnvironment(this, await make(), performance.now() - startedAt);
      this.#environments.add(environment);
      if (!this.#closed) return environment;
      await environment.close();
      throw abortReason(this.signal);
    });
  }

  /** Aborts what is still running. */
  end(): void {
    this.#over.abort(new WhetstoneError("CANCELLED", "the episode has ended"));
  }

  /** Each client's own check of the steps it answered, inside the deadline. */
  async finish(steps: readonly Step[]): Promise<void> {
    const { signal } = this.run;
    for (const client of this.#clients.values()) {
      const own = steps.filter((step) => this.#clientOfStep.get(step) === client);
      await this.phase("model", (bound) => client.finish?.(own, bound), { signal });
    }
  }

  abandon(): void {
    for (const client of this.#clients.values()) client.abandon?.();
  }

  /** I9: every environment, on every path. @returns the first failure. */
  async close(): Promise<Failure> {
    this.#closed = true;
    const startedAt = performance.now();
    const open = [...this.#environments].filter(({ isClosed }) => !isClosed);
    const failures = await Promise.all(open.map((one) => closeWithin(one, this.settings.closeTimeoutMs)));
    if (open.length > 0) this.environmentMs += performance.now() - startedAt;
    return failures.find((failure) => failure !== NO_FAILURE) ?? NO_FAILURE;
  }

  [Symbol.dispose](): void {
    this.run.signal.removeEventListener("abort", this.#onAbort);
  }

  readonly #onAbort = (): void => {
    this.#over.abort(this.run.signal.reason);
  };
}

function clientFrom(source: ClientSource, run: EpisodeRun): RolloutClient {
  return typeof source === "function" ? source(run) : source;
}
