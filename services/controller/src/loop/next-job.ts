// SPDX-License-Identifier: Apache-2.0
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { isWanted, jobState, phaseOf, waitsFor } from "@whetstone/messaging/jobs";
import { type Job, JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { DELETING } from "../jobs/deleting.ts";
import { mayRun } from "../operator/training-job/suspend.ts";

/** What is free for jobs that do not run yet. */
export interface Room {
  readonly engines: number;
  /** Of the installation's. */
  readonly trainers: number;
}

/** All that there is for jobs, those that run included. */
export interface Capacity extends Room {
  /** Engines that other work than jobs has. */
  readonly held: number;
}

/**
 * The job to run next beside those that run here, by name: one whose books have to be closed, else one that a former controller
 * was running, else the oldest that may run. A job that waits for a trainer lets those pass that need none, and nobody passes
 * one that waits for an engine.
 */
export function nextJob(jobs: readonly Job[], running: ReadonlySet<string>, room: Room): Job | undefined {
  const open = openJobs(jobs).filter(({ spec }) => !running.has(spec?.name ?? ""));
  const ending = open.find((job) => jobState(job).kind === "ending");
  if (ending) return ending;
  if (room.engines < 1) return undefined;
  const wanted = [...open.filter(runs), ...open.filter((job) => !runs(job) && jobState(job).kind === "queued")];
  return wanted.find((job) => room.trainers > 0 || !needsTrainer(job));
}

/** Why jobs that may run wait for their turn, each of them; empty: none does, or those that do are to be started again. */
export function waitingJobs(jobs: readonly Job[], running: ReadonlySet<string>, room: Room): Map<Job, string> {
  const waiting = openJobs(jobs).filter(
    (job) =>
      !running.has(job.spec?.name ?? "") && jobState(job).kind === "queued" && job.status?.reason !== "Restarting",
  );
  return new Map(waiting.map((job) => [job, room.engines < 1 || !needsTrainer(job) ? NO_ENGINE : NO_TRAINER]));
}

const NO_ENGINE = "Every engine has a job already: it begins when one of them ends, or another engine is there.";
const NO_TRAINER = "Every trainer has a job already: it begins when one of them ends.";

/** Whether one of the installation's trainers works for the job: it trains, and has none of its own. */
export function needsTrainer({ spec, trainerAddress }: Job): boolean {
  return (spec?.loop?.steps ?? 0) > 0 && trainerAddress === "";
}

/**
 * The jobs that engines and trainer have to be there for: first the running one, until it stands, then those that only wait
 * for their turn, or for them.
 */
export function jobsThatNeedParts(jobs: readonly Job[]): Job[] {
  const open = openJobs(jobs);
  const isNext = ({ desiredState }: Job): boolean =>
    isWanted(desiredState) && (mayRun(waitsFor(desiredState)) || waitsFor(desiredState) === "Updating");
  return [...open.filter(runs), ...open.filter((job) => !runs(job) && isNext(job))];
}

/** Whether a job is being deleted whose run is in an object store, which only a trainer can empty. */
export function deletionNeedsTrainer(jobs: readonly Job[]): boolean {
  return jobs.some(
    ({ spec, status }) => status?.reason === DELETING.reason && spec?.weights?.transport?.kind.case === "objectStore",
  );
}

/** Oldest first. */
function openJobs(jobs: readonly Job[]): Job[] {
  return jobs.filter((job) => jobState(job).kind !== "ended").sort((a, b) => createdMs(a) - createdMs(b));
}

function runs(job: Job): boolean {
  return phaseOf(job) === JobPhase.RUNNING;
}

function createdMs(job: Job): number {
  return job.createdAt ? timestampMs(job.createdAt) : 0;
}
