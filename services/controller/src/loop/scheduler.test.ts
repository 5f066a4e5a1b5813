// SPDX-License-Identifier: Apache-2.0
import { clone, create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampNow } from "@bufbuild/protobuf/wkt";
import { DESIRED, isFinished } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ending, RunSignals, StopRun } from "./job-runner.ts";
import type { Room } from "./next-job.ts";
import { Scheduler } from "./scheduler.ts";

let jobs: Map<string, Job>;
let stop: AbortController;
let scheduler: Scheduler;
let over: Promise<void>;
/** What the next runs end with, once they are let go or told to stop. */
let endings: Ending[];
let started: string[];
let letGo: PromiseWithResolvers<void>;
let room: Room & { readonly held?: number };

const succeeded: Ending = { phase: JobPhase.SUCCEEDED, reason: "Finished", message: "" };

beforeEach(() => {
  [jobs, stop, endings, started, letGo] = [new Map(), new AbortController(), [], [], Promise.withResolvers()];
  room = { engines: 1, trainers: 1 };
  scheduler = new Scheduler({
    logger: silentLogger,
    jobs: () => Promise.resolve([...jobs.values()].map((job) => clone(JobSchema, job))),
    capacity: () => Promise.resolve({ held: 0, ...room }),
    prepare: () => Promise.resolve(),
    setPhase: (name, phase, reason, message) =>
      Promise.resolve(change(name, (job) => setPhase(job, phase, reason, message))),
    run,
  });
  over = scheduler.run(stop.signal);
});

afterEach(async () => {
  letGo.resolve();
  stop.abort();
  await over;
});

function setPhase(job: Job, phase: JobPhase, reason: string, message: string): void {
  if (!job.status) return;
  Object.assign(job.status, { phase, reason, message });
  if (phase === JobPhase.RUNNING) job.status.startedAt ??= timestampNow();
  if (reason === "Restarting") job.status.restarts++;
}

/** A run that goes on until the test lets it go, or its record says stop. */
async function run(job: Job, { suspend, end }: RunSignals): Promise<Ending> {
  started.push(job.spec?.name ?? "");
  const stop = AbortSignal.any([suspend, end]);
  const told = new Promise<void>((resolve) => {
    if (stop.aborted) resolve();
    stop.addEventListener("abort", () => resolve(), { once: true });
  });
  await Promise.race([told, letGo.promise]);
  if (!stop.aborted) return endings.shift() ?? succeeded;
  return ((end.aborted ? end : suspend).reason as StopRun).ending;
}

function add(name: string, age: number, steps = 0): void {
  const spec = { name, loop: { steps } };
  const createdAt = timestampFromMs(1e9 - age);
  jobs.set(
    name,
    create(JobSchema, { spec, createdAt, desiredState: DESIRED.run(), status: { phase: JobPhase.QUEUED } }),
  );
  scheduler.wake();
}

function change(name: string, apply: (job: Job) => void): Job {
  const job = jobs.get(name);
  if (!job) throw new Error(`no job ${name}`);
  apply(job);
  return clone(JobSchema, job);
}

const note = (name: string, apply: (job: Job) => void): void => scheduler.note(change(name, apply));
const status = (name: string) => jobs.get(name)?.status;
const isIn = (name: string, phase: JobPhase) => waitFor(() => status(name)?.phase === phase);

describe("Scheduler", () => {
  it("suspends and cancels waiting jobs while another one runs", async () => {
    add("first", 9);
    await isIn("first", JobPhase.RUNNING);
    add("second", 5);
    add("third", 4);
    note("second", (job) => (job.desiredState = DESIRED.suspendByUser()));
    note("third", (job) => (job.desiredState = DESIRED.cancelByUser()));
    await isIn("second", JobPhase.SUSPENDED);
    await isIn("third", JobPhase.CANCELLED);
    expect(started).toEqual(["first"]);
  });

  it("does not start a job that has to wait, stops one that becomes so, and goes on when it may", async () => {
    add("waits", 9);
    await isIn("waits", JobPhase.RUNNING);
    note("waits", (job) => (job.desiredState = DESIRED.suspendByController("WaitingForQuota")));
    await isIn("waits", JobPhase.SUSPENDED);
    expect(status("waits")?.reason).toBe("WaitingForQuota");
    add("other", 5);
    await isIn("other", JobPhase.RUNNING);
    letGo.resolve();
    await isIn("other", JobPhase.SUCCEEDED);
    expect(started).toEqual(["waits", "other"]);
    note("waits", (job) => (job.desiredState = DESIRED.run()));
    await isIn("waits", JobPhase.SUCCEEDED);
  });

  it("ends a waiting job for the reason that the controller gave", async () => {
    add("first", 9);
    await isIn("first", JobPhase.RUNNING);
    add("late", 5);
    note("late", (job) => (job.desiredState = DESIRED.failByController("PreRunningDeadlineExceeded", "late")));
    await isIn("late", JobPhase.FAILED);
    expect(status("late")?.reason).toBe("PreRunningDeadlineExceeded");
  });

  it("closes the books of what ran before by a run that waits for nobody, except when all of it is deleted", async () => {
    add("first", 9);
    await isIn("first", JobPhase.RUNNING);
    for (const name of ["ran", "gone"]) {
      add(name, 5);
      change(name, (job) => setPhase(job, JobPhase.SUSPENDED, "", ""));
      change(name, (job) => job.status && (job.status.startedAt = timestampNow()));
    }
    note("ran", (job) => (job.desiredState = DESIRED.cancelByUser()));
    note("gone", (job) => (job.desiredState = DESIRED.cancelByDeletion()));
    await isIn("gone", JobPhase.CANCELLED);
    await isIn("ran", JobPhase.CANCELLED);
    expect(started).toEqual(["first", "ran"]);
    expect(status("first")?.phase).toBe(JobPhase.RUNNING);
  });

  it("starts a job that failed and may restart again, and counts it", async () => {
    endings = [{ phase: JobPhase.QUEUED, reason: "Restarting", message: "boom" }];
    letGo.resolve();
    add("phoenix", 9);
    await waitFor(() => isFinished(status("phoenix")?.phase ?? JobPhase.QUEUED));
    expect(started).toEqual(["phoenix", "phoenix"]);
    expect(status("phoenix")?.restarts).toBe(1);
  });

  it("runs as many at once as there are engines, and as many that train as there are trainers", async () => {
    room = { engines: 3, trainers: 1 };
    for (const [name, age] of [
      ["first", 9],
      ["second", 8],
      ["evaluates", 7],
      ["late", 6],
    ] as const)
      add(name, age, 1);
    for (const name of ["evaluates", "late"]) change(name, (job) => job.spec?.loop && (job.spec.loop.steps = 0));
    await isIn("late", JobPhase.RUNNING);
    expect(started).toEqual(["first", "evaluates", "late"]);
    await waitFor(() => status("second")?.reason === "WaitingForTurn");
    expect(status("second")?.message).toMatch(/^Every engine has a job/);
    room = { engines: 4, trainers: 1 };
    await waitFor(() => /^Every trainer has a job/.test(status("second")?.message ?? ""));
    note("first", (job) => (job.desiredState = DESIRED.cancelByUser()));
    await isIn("first", JobPhase.CANCELLED);
    await isIn("second", JobPhase.RUNNING);
    expect(started).toEqual(["first", "evaluates", "late", "second"]);
  });

  it("leaves alone the engines that other work than jobs has", async () => {
    room = { engines: 2, trainers: 2, held: 2 };
    add("waits", 9);
    await waitFor(() => status("waits")?.reason === "WaitingForTurn");
    room = { engines: 3, trainers: 2, held: 2 };
    await isIn("waits", JobPhase.RUNNING);
    add("second", 8);
    await waitFor(() => status("second")?.reason === "WaitingForTurn");
    expect(started).toEqual(["waits"]);
  });

  it("notices engines that come, without being told", async () => {
    add("first", 9);
    add("second", 8);
    await isIn("first", JobPhase.RUNNING);
    room = { engines: 2, trainers: 2 };
    await isIn("second", JobPhase.RUNNING);
  });

  it("ends all runs when another controller has taken over, and says so", async () => {
    room = { engines: 2, trainers: 2 };
    endings = [{ phase: "left" }];
    add("other", 9);
    await isIn("other", JobPhase.RUNNING);
    add("taken", 8);
    await isIn("taken", JobPhase.RUNNING);
    const ended = over.then(
      () => "ended",
      (error: unknown) => (error as { code: string }).code,
    );
    over = Promise.resolve();
    letGo.resolve();
    expect(await ended).toBe("STALE_EPOCH");
  });
});
