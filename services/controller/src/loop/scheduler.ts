// SPDX-License-Identifier: Apache-2.0
import { jobState, type PhaseChange, phaseOf, reached } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, Requester } from "@whetstone/proto/jobs/v1/jobs";
import type { Logger } from "@whetstone/telemetry";
import { exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import { nextJob } from "./next-job.ts";
import { type Ending, type RunSignals, StopRun } from "./job-runner.ts";

export interface SchedulerDeps {
  jobs(): Promise<Job[]>;
  /** Makes what others look for once the job is RUNNING: its streams. */
  prepare(job: Job): Promise<void>;
  /** @returns the job as it is now stored */
  setPhase(name: string, phase: JobPhase, reason: string, message: string): Promise<Job>;
  /** Runs a job to its end; never throws for the job's own failures. */
  run(job: Job, signals: RunSignals): Promise<Ending>;
  readonly logger: Logger;
}

/** How long a job that failed rests before it is started again: what it failed of may need a while to come back. */
const REST = exponentialBackoff({ initialMs: 1000, maxMs: 60_000 });

/**
 * Runs one job at a time, oldest first: the engines hold the weights of one policy. The truth is the job records; this
 * class holds only which job runs in this process.
 */
export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #resting = new Set<string>();
  #running: Running | undefined;
  #wakeUp = Promise.withResolvers<void>();
  /** Choosing a job and settling the others never happen at once. */
  #turn: Promise<unknown> = Promise.resolve();
  #settling: Promise<void> | undefined;

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
  }

  /** Something about a job has changed. */
  wake(): void {
    this.#wakeUp.resolve();
  }

  /** Until the signal aborts. @throws STALE_EPOCH when another controller has taken over */
  async run(shutdown: AbortSignal): Promise<void> {
    shutdown.addEventListener("abort", () => this.wake(), { once: true });
    while (!shutdown.aborted) {
      try {
        await this.#settle();
        const job = await this.#inTurn(() => this.#start(shutdown));
        if (job) await this.#runOne(job, shutdown);
        else await this.#awake();
      } catch (error) {
        if (shutdown.aborted) return;
        this.#running = undefined;
        if (error instanceof WhetstoneError && error.code === "STALE_EPOCH") throw error;
        this.#deps.logger.error("scheduler_pass_failed", { error });
        await sleep(1000, shutdown).catch(() => undefined);
      }
    }
  }

  /** Passes a changed record on: to the running job at once, else to the settling of the waiting ones. */
  note(job: Job): void {
    if (this.#running && this.#running.name === job.spec?.name) tell(this.#running, job);
    else this.#settle().catch(() => undefined); // The next pass says why.
    this.wake();
  }

  /** Chooses a job and makes it RUNNING. */
  async #start(shutdown: AbortSignal): Promise<Job | undefined> {
    const jobs = await this.#deps.jobs();
    const chosen = shutdown.aborted
      ? undefined
      : nextJob(jobs.filter((job) => !this.#resting.has(job.spec?.name ?? "")));
    if (!chosen) return undefined;
    const name = chosen.spec?.name ?? "";
    this.#running = newRun(name);
    await this.#deps.prepare(chosen);
    return this.#deps.setPhase(name, JobPhase.RUNNING, "Training", "");
  }

  async #runOne(job: Job, shutdown: AbortSignal): Promise<void> {
    const name = job.spec?.name ?? "";
    const running = (this.#running ??= newRun(name));
    tell(running, job);
    const signals = { suspend: running.suspend.signal, end: running.end.signal, shutdown };
    const ending = await this.#deps.run(job, signals);
    this.#running = undefined;
    if (ending.phase === "left" && !shutdown.aborted)
      throw new WhetstoneError("STALE_EPOCH", `another controller has taken job ${name} over`);
    if (ending.phase === "left") return;
    if (ending.phase === JobPhase.QUEUED) this.#rest(name, job.status?.restarts ?? 0, shutdown);
    await this.#deps.setPhase(name, ending.phase, ending.reason, ending.message);
  }

  #rest(name: string, restarts: number, shutdown: AbortSignal): void {
    this.#resting.add(name);
    const over = (): void => {
      this.#resting.delete(name);
      this.wake();
    };
    void sleep(REST(restarts + 1), shutdown).then(over, over);
  }

  /** Jobs that nobody runs are suspended, resumed and ended by a change of phase. Callers that come while one waits share it. */
  #settle(): Promise<void> {
    this.#settling ??= this.#inTurn(() => {
      this.#settling = undefined;
      return this.#settleIdle();
    });
    return this.#settling;
  }

  async #settleIdle(): Promise<void> {
    for (const job of await this.#deps.jobs()) {
      const name = job.spec?.name ?? "";
      if (phaseOf(job) === JobPhase.RUNNING || name === this.#running?.name) continue;
      const to = settled(job);
      if (to) await this.#deps.setPhase(name, to.phase, to.reason, to.message);
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  async #awake(): Promise<void> {
    await this.#wakeUp.promise;
    this.#wakeUp = Promise.withResolvers<void>();
  }
}

interface Running {
  readonly name: string;
  readonly suspend: AbortController;
  readonly end: AbortController;
}

const newRun = (name: string): Running => ({ name, suspend: new AbortController(), end: new AbortController() });

/** A job that is suspending, and finishes its step, may still have to end. */
function tell(running: Running, job: Job): void {
  const state = jobState(job);
  if ("suspend" in state) running.suspend.abort(new StopRun(state.suspend));
  if ("end" in state) running.end.abort(new StopRun(state.end));
}

/** Where a job that nobody runs belongs. Undefined: it is there, or its books have to be closed by a run. */
function settled(job: Job): PhaseChange | undefined {
  const state = jobState(job);
  switch (state.kind) {
    case "suspended": // What the controller lets wait keeps its phase.
      return phaseOf(job) === JobPhase.QUEUED && state.suspend.by === Requester.USER
        ? reached(state.suspend)
        : undefined;
    case "resuming":
      return { phase: JobPhase.QUEUED, reason: "Resumed", message: "" };
    case "ending": // Where nothing was dispatched, or all of it goes, there are no books to close.
      return job.status?.startedAt && state.end.by !== Requester.DELETION ? undefined : reached(state.end);
    default:
      return undefined;
  }
}
