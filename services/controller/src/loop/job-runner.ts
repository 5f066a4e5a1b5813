// SPDX-License-Identifier: Apache-2.0
import type { Logger } from "@whetstone/telemetry";
import { isFinished, type PhaseChange, reached } from "@whetstone/messaging/jobs";
import { Deadline, isAbort, WhetstoneError } from "@whetstone/core";
import { create } from "@bufbuild/protobuf";
import {
  type EpisodeCounts,
  EpisodeCountsSchema,
  type DesiredState_End,
  type DesiredState_Suspend,
  type Job,
  JobPhase,
  type StepRecord,
} from "@whetstone/proto/jobs/v1/jobs";
import { compileJob } from "../jobs/compiled-job.ts";
import { trainersReason } from "./failure-reason.ts";
import type { TaskList } from "../datasets/dataset.ts";
import { NothingLearnedError } from "./trained-batches.ts";
import { BatchCollector } from "./batch/batch-collector.ts";
import type { JobContext } from "./job-context.ts";
import type { EpisodeIndex, Fleet, Ledger, TaskQueue, Trainer } from "./ports.ts";
import type { StatusBoard } from "./status-board.ts";
import { runTrainingLoop } from "./training-loop.ts";
import { ValidationRun } from "./validation/validation-run.ts";

/** What one job's run is made of; opened by the caller and closed by it. */
export interface JobParts {
  readonly ledger: Ledger;
  readonly episodes: EpisodeIndex;
  readonly queue: TaskQueue;
  readonly trainer: Trainer;
  readonly fleet: Fleet;
  readonly train: TaskList;
  readonly validation: TaskList;
  readonly board: StatusBoard;
  readonly logger: Logger;
  /** Whether a failure is followed by another start from the newest checkpoint. */
  mayRestart(): boolean;
}

export type Ending =
  /** QUEUED: it failed and is started again. */
  | PhaseChange
  /** The process goes; the job stays as it is and is taken up by the next one. */
  | { readonly phase: "left" };

export interface RunSignals {
  /** The job is suspended; a step that the trainer has begun is finished before. The reason is a `StopRun`. */
  readonly suspend: AbortSignal;
  /** The job has to end: no wait may hold that up, whoever does not answer. The reason is a `StopRun`. */
  readonly end: AbortSignal;
  /** The process has to go, or another controller has taken over. */
  readonly shutdown: AbortSignal;
}

/** Runs one job until it ends, is stopped by its user, or the process has to go. Never throws. */
export async function runJob(record: Job, parts: JobParts, signals: RunSignals): Promise<Ending> {
  using timeout = Deadline.after(timeoutOf(record));
  const leave = AbortSignal.any([signals.end, signals.shutdown, timeout.signal]);
  const context = contextOf(record, parts, leave);
  const batches = new BatchCollector(context, { ...parts, tasks: parts.train });
  const validations = new ValidationRun(context, { ...parts, tasks: parts.validation, known: parts.board.validations });
  const countsOf = (): Promise<EpisodeCounts> => countEpisodes(batches, parts);
  parts.board.countWith(countsOf);
  const stop = AbortSignal.any([signals.suspend, leave]);
  try {
    parts.board.recorded(await parts.ledger.steps());
    await batches.restore(stop);
    await runTrainingLoop(context, { ...parts, batches, validations }, stop);
    return { phase: JobPhase.SUCCEEDED, reason: "Finished", message: "" };
  } catch (error) {
    return await endingOf(error, { batches, parts, signals, timeout: timeout.signal });
  } finally {
    await parts.board.flush().catch((error: unknown) => parts.logger.warn("status_not_written", { error }));
  }
}

function timeoutOf({ spec }: Job): number {
  return (spec && compileJob(spec).timeoutMs) ?? Number.POSITIVE_INFINITY;
}

function contextOf(record: Job, parts: JobParts, leave: AbortSignal): JobContext {
  const spec = record.spec;
  if (!spec) throw new Error("a stored job has no spec");
  return {
    spec,
    job: compileJob(spec),
    uid: record.uid,
    fleet: parts.fleet,
    leave,
    onTrainProgress: (progress) => {
      parts.logger.debug("train_progress", { phase: progress.phase, share: progress.share });
      parts.board.notices("step", progress.notices);
    },
    notices: (source, notices) => parts.board.notices(source, notices),
    onPolicy: (policy) => parts.board.policy(policy),
    onStep: (step: StepRecord) => parts.board.step(step),
    onValidation: (results) => parts.board.validated(results),
    onCounts: () => parts.board.touch(),
  };
}

/** Tells a run to stop, by the signal that it is the reason of. */
export class StopRun extends WhetstoneError {
  override readonly name = "StopRun";
  /** What the job has become when the run has stopped. */
  readonly ending: PhaseChange;

  constructor(desired: DesiredState_Suspend | DesiredState_End) {
    const ending = reached(desired);
    super("CANCELLED", `the job has to become ${JobPhase[ending.phase]}: ${ending.reason}`);
    this.ending = ending;
  }
}

/** An end counts whatever the run failed of meanwhile. A suspended job that fails has failed. */
function toldEnding(error: unknown, { end, suspend }: RunSignals): PhaseChange | undefined {
  const reason: unknown = (end.aborted ? end : suspend).reason;
  const isHeard = end.aborted || isAbort(error);
  return isHeard && reason instanceof StopRun ? reason.ending : undefined;
}

interface Stopped {
  readonly batches: BatchCollector;
  readonly parts: JobParts;
  readonly signals: RunSignals;
  readonly timeout: AbortSignal;
}

async function endingOf(error: unknown, { batches, parts, signals, timeout }: Stopped): Promise<Ending> {
  if (signals.shutdown.aborted || (await wasTakenOver(error, parts.ledger))) return { phase: "left" };
  await parts.queue.purge();
  const ending = toldEnding(error, signals) ?? failure(error, parts, timeout);
  if (isFinished(ending.phase)) await batches.voidInFlight();
  return ending;
}

/** Then the tasks in the queue, the books and the engines are another's, and so is the word on how the job ends. */
async function wasTakenOver(error: unknown, ledger: Pick<Ledger, "verify">): Promise<boolean> {
  if (isStale(error)) return true;
  return await ledger.verify().then(() => false, isStale);
}

function isStale(error: unknown): boolean {
  return error instanceof WhetstoneError && error.code === "STALE_EPOCH";
}

function failure(error: unknown, parts: JobParts, timeout: AbortSignal): PhaseChange {
  if (timeout.aborted)
    return { phase: JobPhase.FAILED, reason: "DeadlineExceeded", message: "The job's timeout passed." };
  parts.logger.error("job_failed", { error });
  const message = error instanceof Error ? error.message : String(error);
  const named = trainersReason(error);
  if (named !== undefined) return { phase: JobPhase.FAILED, reason: named, message };
  if (parts.mayRestart()) return { phase: JobPhase.QUEUED, reason: "Restarting", message };
  return { phase: JobPhase.FAILED, reason: error instanceof NothingLearnedError ? error.reason : "Failed", message };
}

/** The books (I2), from dispatch records and manifests. */
async function countEpisodes(batches: BatchCollector, parts: JobParts): Promise<EpisodeCounts> {
  const { trained, voided, baseline } = await parts.board.settled(batches.dispatched.length, (step) =>
    parts.ledger.manifest(step),
  );
  const dispatched = batches.dispatchedEpisodes;
  return create(EpisodeCountsSchema, {
    dispatched: BigInt(dispatched),
    trained: BigInt(trained),
    voided: BigInt(voided),
    baseline: BigInt(baseline),
    inFlight: BigInt(dispatched - trained - voided - baseline),
  });
}
