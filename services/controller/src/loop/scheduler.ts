// SPDX-License-Identifier: Apache-2.0
import { type Job, JobPhase, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import type { Logger } from "@whetstone/telemetry";
import { sleep } from "@whetstone/core";
import { isFinished } from "../domain/job-phase.ts";
import { nextJob } from "../domain/next-job.ts";
import { type Ending, wishChanged } from "./job-runner.ts";

export interface SchedulerDeps {
  jobs(): Promise<Job[]>;
  /** Makes what others look for once the job is RUNNING: its streams. */
  prepare(job: Job): Promise<void>;
  setPhase(name: string, phase: JobPhase, reason: string, message: string): Promise<void>;
  /** Runs a job to its end; never throws for the job's own failures. */
  run(job: Job, signals: { wish: AbortSignal; shutdown: AbortSignal }): Promise<Ending>;
  readonly logger: Logger;
}

/**
 * Runs one job at a time, oldest first: the engines hold the weights of one policy. The truth is the job records; this
 * class holds only which job runs in this process.
 */
export class Scheduler {
  readonly #deps: SchedulerDeps;
  #running: { name: string; wish: AbortController } | undefined;
  #wakeUp = Promise.withResolvers<void>();

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
  }

  /** Something about a job has changed. */
  wake(): void {
    this.#wakeUp.resolve();
  }

  async run(shutdown: AbortSignal): Promise<void> {
    shutdown.addEventListener("abort", () => this.wake(), { once: true });
    while (!shutdown.aborted) {
      try {
        await this.#settleIdleWishes();
        const job = nextJob(await this.#deps.jobs());
        if (job) await this.#runOne(job, shutdown);
        else await this.#awake();
      } catch (error) {
        if (shutdown.aborted) return;
        this.#deps.logger.error("scheduler_pass_failed", { error });
        await sleep(1000, shutdown).catch(() => undefined);
      }
    }
  }

  /** Passes a changed wish on to the running job. */
  noteWish(name: string, wish: JobWish): void {
    if (this.#running?.name === name && wish !== JobWish.RUN) this.#running.wish.abort(wishChanged(wish));
    this.wake();
  }

  async #runOne(job: Job, shutdown: AbortSignal): Promise<void> {
    const name = job.spec?.name ?? "";
    const wish = new AbortController();
    this.#running = { name, wish };
    if (job.wish !== JobWish.RUN) wish.abort(wishChanged(job.wish));
    await this.#deps.prepare(job);
    await this.#deps.setPhase(name, JobPhase.RUNNING, "Training", "");
    const ending = await this.#deps.run(job, { wish: wish.signal, shutdown });
    this.#running = undefined;
    if (ending.phase !== "left") await this.#deps.setPhase(name, ending.phase, ending.reason, ending.message);
  }

  /** Jobs that nobody runs are suspended, resumed and cancelled by a word. */
  async #settleIdleWishes(): Promise<void> {
    for (const job of await this.#deps.jobs()) {
      const name = job.spec?.name ?? "";
      const phase = job.status?.phase ?? JobPhase.QUEUED;
      if (isFinished(phase) || phase === JobPhase.RUNNING) continue;
      if (job.wish === JobWish.SUSPEND && phase !== JobPhase.SUSPENDED)
        await this.#deps.setPhase(name, JobPhase.SUSPENDED, "SuspendedByUser", "Resume it with `whet jobs resume`.");
      if (job.wish === JobWish.RUN && phase === JobPhase.SUSPENDED)
        await this.#deps.setPhase(name, JobPhase.QUEUED, "Resumed", "");
    }
  }

  async #awake(): Promise<void> {
    await this.#wakeUp.promise;
    this.#wakeUp = Promise.withResolvers<void>();
  }
}
