// SPDX-License-Identifier: Apache-2.0
import type { JobStance } from "./job-watch.ts";
import { type DeskDeps, TaskDesk } from "./task-desk.ts";

/** One desk for each job that runs. */
export class FrontOffice {
  readonly #deps: DeskDeps;
  readonly #desks = new Map<string, TaskDesk>();
  readonly #closing = new Set<Promise<void>>();
  #closed = false;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
  }

  get jobs(): readonly string[] {
    return [...this.#desks.keys()];
  }

  readonly onStance = (job: string, stance: JobStance): void => {
    const desk = this.#desks.get(job);
    if (stance === "play") {
      if (desk === undefined && !this.#closed) this.#desks.set(job, new TaskDesk(this.#deps, job));
      return;
    }
    if (desk === undefined) return;
    this.#desks.delete(job);
    this.#track(desk.close(stance));
  };

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
