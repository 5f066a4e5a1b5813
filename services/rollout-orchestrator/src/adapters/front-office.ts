// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { OnStance } from "./job-watch.ts";
import { type DeskDeps, TaskDesk } from "./task-desk.ts";

/** One desk for each job that runs. */
export class FrontOffice {
  readonly #deps: DeskDeps;
  readonly #desks = new Map<string, TaskDesk>();
  /** Jobs here that do without an environment. */
  readonly #withoutEnvironment = new Set<string>();
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
  }

  get jobs(): readonly string[] {
    return [...this.#desks.keys()];
  }

  /** Every job here has an environment. */
  readonly allNeedEnvironment = (): boolean => this.#withoutEnvironment.size === 0;

  readonly onStance: OnStance = (job, stance, spec) => {
    if (stance === "play") this.#open(job, spec);
    else {
      const desk = this.#desks.get(job);
      this.#desks.delete(job);
      this.#withoutEnvironment.delete(job);
      if (desk !== undefined) this.#track(desk.close(stance));
    }
  };

  #open(job: string, spec: JobSpec | undefined): void {
    if (this.#closed) return;
    this.#deps.gate.setWeight(job, spec?.weight ?? 1);
    if (!spec?.environment?.kind) this.#withoutEnvironment.add(job);
    if (!this.#desks.has(job)) this.#desks.set(job, new TaskDesk(this.#deps, job));
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
