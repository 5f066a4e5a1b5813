// SPDX-License-Identifier: Apache-2.0
import { withDefaults } from "@whetstone/contract/defaults";
import { type JobSpec, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { OrchestratorConfig } from "../config.ts";
import type { OnActivity } from "./job-watch.ts";
import { poolOf, type Pools } from "../environments/pools.ts";
import { type TaskPullerDeps, TaskPuller } from "./task-puller.ts";

export interface JobPullersDeps extends TaskPullerDeps {
  readonly config: TaskPullerDeps["config"] & Pick<OrchestratorConfig, "pool">;
  readonly pools: Pools;
}

/** One puller for each job that runs. */
export class JobPullers {
  readonly #deps: JobPullersDeps;
  readonly #pullers = new Map<string, TaskPuller>();
  /** Jobs here that do without an environment. */
  readonly #withoutEnvironment = new Set<string>();
  /** By job. */
  readonly #poolNames = new Map<string, string>();
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(deps: JobPullersDeps) {
    this.#deps = deps;
  }

  get jobs(): readonly string[] {
    return [...this.#pullers.keys()];
  }

  /** Sessions that episodes here may have. Undefined: not known, or jobs play that need none. */
  readonly environmentSlots = async (): Promise<number | undefined> => {
    if (this.#withoutEnvironment.size > 0 || this.#poolNames.size === 0) return undefined;
    const pools = [...new Set(this.#poolNames.values())].map((name) => this.#deps.pools.of(name));
    const slots = await Promise.all(pools.map((pool) => pool.slots()));
    return slots.reduce((sum, count) => (sum === undefined || count === undefined ? undefined : sum + count), 0);
  };

  readonly onActivity: OnActivity = (job, activity, spec) => {
    if (activity === "play") this.#open(job, spec);
    else {
      const puller = this.#pullers.get(job);
      this.#pullers.delete(job);
      this.#withoutEnvironment.delete(job);
      this.#poolNames.delete(job);
      if (puller !== undefined) this.#track(puller.close(activity));
    }
  };

  #open(job: string, spec: JobSpec | undefined): void {
    if (this.#closed) return;
    const { gate, pools, config } = this.#deps;
    const poolName = poolOf(spec?.environment);
    if (config.pool !== undefined && config.pool !== poolName) return;
    const pool = pools.of(poolName);
    const weight = withDefaults(JobSpecSchema, spec).weight;
    gate.setWeight(job, weight);
    const needsRoom = Boolean(spec?.environment?.kind);
    if (needsRoom) {
      pool.setWeight(job, weight);
      this.#poolNames.set(job, poolName);
    } else this.#withoutEnvironment.add(job);
    if (!this.#pullers.has(job))
      this.#pullers.set(job, new TaskPuller(this.#deps, { name: job, poolName, pool, needsRoom }));
  }

  /** Stops pulling, aborts what plays, hands all tasks back. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const puller of this.#pullers.values()) this.#track(puller.close("pause"));
    this.#pullers.clear();
    await Promise.all(this.#closing);
  }

  #track(closing: Promise<void>): void {
    this.#closing.add(closing);
    void closing.finally(() => this.#closing.delete(closing));
  }
}
