// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { OrchestratorConfig } from "../config.ts";
import type { OnStance } from "./job-watch.ts";
import { poolOf, type Pools } from "../environments/pools.ts";
import { type DeskDeps, TaskDesk } from "./task-puller.ts";

export interface OfficeDeps extends DeskDeps {
  readonly config: DeskDeps["config"] & Pick<OrchestratorConfig, "pool">;
  readonly pools: Pools;
}

/** One desk for each job that runs. */
export class FrontOffice {
  readonly #deps: OfficeDeps;
  readonly #desks = new Map<string, TaskDesk>();
  /** Jobs here that do without an environment. */
  readonly #withoutEnvironment = new Set<string>();
  /** By job. */
  readonly #poolNames = new Map<string, string>();
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(deps: OfficeDeps) {
    this.#deps = deps;
  }

  get jobs(): readonly string[] {
    return [...this.#desks.keys()];
  }

  /** Sessions that episodes here may have. Undefined: not known, or jobs play that need none. */
  readonly environmentSlots = async (): Promise<number | undefined> => {
    if (this.#withoutEnvironment.size > 0 || this.#poolNames.size === 0) return undefined;
    const pools = [...new Set(this.#poolNames.values())].map((name) => this.#deps.pools.of(name));
    const slots = await Promise.all(pools.map((pool) => pool.slots()));
    return slots.reduce((sum, count) => (sum === undefined || count === undefined ? undefined : sum + count), 0);
  };

  readonly onStance: OnStance = (job, stance, spec) => {
    if (stance === "play") this.#open(job, spec);
    else {
      const desk = this.#desks.get(job);
      this.#desks.delete(job);
      this.#withoutEnvironment.delete(job);
      this.#poolNames.delete(job);
      if (desk !== undefined) this.#track(desk.close(stance));
    }
  };

  #open(job: string, spec: JobSpec | undefined): void {
    if (this.#closed) return;
    const { gate, pools, config } = this.#deps;
    const poolName = poolOf(spec?.environment);
    if (config.pool !== undefined && config.pool !== poolName) return;
    const pool = pools.of(poolName);
    const weight = spec?.weight ?? 1;
    gate.setWeight(job, weight);
    const needsRoom = Boolean(spec?.environment?.kind);
    if (needsRoom) {
      pool.setWeight(job, weight);
      this.#poolNames.set(job, poolName);
    } else this.#withoutEnvironment.add(job);
    if (!this.#desks.has(job)) this.#desks.set(job, new TaskDesk(this.#deps, { name: job, poolName, pool, needsRoom }));
  }

  /** Stops pulling, aborts what plays, hands all tasks back. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const desk of this.#desks.values()) this.#track(desk.close("pause"));
    this.#desks.clear();
    await Promise.all(this.#closing);
  }

  #track(closing: Promise<void>): void {
    this.#closing.add(closing);
    void closing.finally(() => this.#closing.delete(closing));
  }
}
