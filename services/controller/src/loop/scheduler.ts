// SPDX-License-Identifier: Apache-2.0
import { jobState, type PhaseChange, phaseOf, reached } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, Requester } from "@whetstone/proto/jobs/v1/jobs";
import type { Logger } from "@whetstone/telemetry";
import { exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import { type Capacity, needsTrainer, nextJob, type Room, waitingJobs } from "./next-job.ts";
import { type Ending, type RunSignals, StopRun } from "./job-runner.ts";

export interface SchedulerDeps {
  jobs(): Promise<Job[]>;
  capacity(): Promise<Capacity>;
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
/** How often those that wait are looked at: engines come and go without a word to us. */
const LOOK_EVERY_MS = 2_000;
const UNBOUNDED: Room = { engines: Number.POSITIVE_INFINITY, trainers: Number.POSITIVE_INFINITY };

/**
 * Runs as many jobs at once as there are engines, of those that train as many as there are trainers; the oldest first. The
 * truth is the job records; this class holds only which jobs run in this process.
 */
export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #resting = new Set<string>();
  readonly #running = new Map<string, Running>();
  #wakeUp = Promise.withResolvers<void>();
  /** Choosing a job and settling the others never happen at once. */
  #turn: Promise<unknown> = Promise.resolve();
  #settling: Promise<void> | undefined;
  /** Another controller leads: all runs leave. */
  readonly #takenOver = new AbortController();

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
  }

  /** Something about a job has changed. */
  wake(): void {
    this.#wakeUp.resolve();
  }

  /** Until the signal aborts. @throws STALE_EPOCH when another controller has taken over */
  async run(shutdown: AbortSignal): Promise<void> {
    const leave = AbortSignal.any([shutdown, this.#takenOver.signal]);
    leave.addEventListener("abort", () => this.wake(), { once: true });
    while (!leave.aborted) {
      try {
        await this.#settle();
        const job = await this.#inTurn(() => this.#start(leave));
        if (!job) await this.#awake();
      } catch (error) {
        await this.#passFailed(error, leave);
      }
    }
    await Promise.all([...this.#running.values()].map(({ done }) => done));
    if (!shutdown.aborted) throw this.#takenOver.signal.reason;
  }

  async #passFailed(error: unknown, leave: AbortSignal): Promise<void> {
    if (leave.aborted) return;
    if (error instanceof WhetstoneError && error.code === "STALE_EPOCH") return this.#takenOver.abort(error);
    this.#deps.logger.error("scheduler_pass_failed", { error });
    await sleep(1000, leave).catch(() => undefined);
  }

  /** Passes a changed record on: to its run at once, else to the settling of the waiting ones. */
  note(job: Job): void {
    const running = this.#running.get(job.spec?.name ?? "");
    if (running) tell(running, job);
    else this.#settle().catch(() => undefined); // The next pass says why.
    this.wake();
  }

  /** Chooses a job, makes it RUNNING and lets it run. */
  async #start(leave: AbortSignal): Promise<Job | undefined> {
    const chosen = await this.#choose();
    if (!chosen || leave.aborted) return undefined;
    const name = chosen.spec?.name ?? "";
    const running = newRun(chosen);
    this.#running.set(name, running);
    try {
      await this.#deps.prepare(chosen);
      const job = await this.#deps.setPhase(name, JobPhase.RUNNING, "Training", "");
      running.done = this.#runOne(job, running, leave);
      return job;
    } catch (error) {
      this.#running.delete(name);
      throw error;
    }
  }

  async #choose(): Promise<Job | undefined> {
    const jobs = (await this.#deps.jobs()).filter(({ spec }) => !this.#resting.has(spec?.name ?? ""));
    const running = new Set(this.#running.keys());
    if (!nextJob(jobs, running, UNBOUNDED)) return undefined;
    const room = await this.#room();
    const chosen = nextJob(jobs, running, room);
    if (!chosen) await this.#tellWaiting(waitingJobs(jobs, running, room));
    return chosen;
  }

  async #tellWaiting(waiting: ReadonlyMap<Job, string>): Promise<void> {
    for (const [{ spec, status }, message] of waiting) {
      if (status?.phase !== JobPhase.QUEUED || status.message === message) continue;
      await this.#deps.setPhase(spec?.name ?? "", JobPhase.QUEUED, "WaitingForTurn", message);
    }
  }

  /** The first job runs whether or not engines are there: they may come for it. Beside what holds engines it waits for one. */
  async #room(): Promise<Room> {
    const running = [...this.#running.values()];
    const { engines, trainers, held } = await this.#deps.capacity();
    const withTrainer = running.filter(({ hasTrainer }) => hasTrainer).length;
    const isFirst = running.length === 0 && held === 0;
    const free = isFirst ? Math.max(1, engines) : engines - held - running.length;
    return { engines: free, trainers: trainers - withTrainer };
  }

  /** Never throws: what fails here is for the next pass to try again, or ends them all. */
  async #runOne(job: Job, running: Running, leave: AbortSignal): Promise<void> {
    const name = job.spec?.name ?? "";
    tell(running, job);
    try {
      const signals = { suspend: running.suspend.signal, end: running.end.signal, shutdown: leave };
      const ending = await this.#deps.run(job, signals);
      if (ending.phase === "left")
        throw new WhetstoneError("STALE_EPOCH", `another controller has taken job ${name} over`);
      if (ending.phase === JobPhase.QUEUED) this.#rest(name, job.status?.restarts ?? 0, leave);
      await this.#deps.setPhase(name, ending.phase, ending.reason, ending.message);
    } catch (error) {
      await this.#passFailed(error, leave);
    } finally {
      this.#running.delete(name);
      this.wake();
    }
  }

  #rest(name: string, restarts: number, leave: AbortSignal): void {
    this.#resting.add(name);
    const over = (): void => {
      this.#resting.delete(name);
      this.wake();
    };
    void sleep(REST(restarts + 1), leave).then(over, over);
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
      if (phaseOf(job) === JobPhase.RUNNING || this.#running.has(name)) continue;
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
    const look = setTimeout(() => this.wake(), LOOK_EVERY_MS);
    await this.#wakeUp.promise;
    clearTimeout(look);
    this.#wakeUp = Promise.withResolvers<void>();
  }
}

interface Running {
  readonly suspend: AbortController;
  readonly end: AbortController;
  readonly hasTrainer: boolean;
  done: Promise<void>;
}

function newRun(job: Job): Running {
  const hasTrainer = jobState(job).kind !== "ending" && needsTrainer(job);
  return { suspend: new AbortController(), end: new AbortController(), hasTrainer, done: Promise.resolve() };
}

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
