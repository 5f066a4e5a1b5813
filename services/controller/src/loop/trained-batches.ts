// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import type { StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import { type Notice, NoticeSchema } from "@whetstone/proto/trainer/v1/trainer";

/** So many batches in a row without a trained episode, and the job fails: whatever is wrong does not pass by itself. */
export const EMPTY_BATCHES_LIMIT = 3;

/** A job that goes on without learning anything. Its `reason` becomes the status's. */
export class NothingLearnedError extends WhetstoneError {
  readonly reason: "NothingTrained" | "NothingScored";

  constructor(reason: "NothingTrained" | "NothingScored", message: string) {
    super("FAILED_PRECONDITION", message, { retry: "never" });
    this.reason = reason;
  }
}

/** Watches whether a job's batches train anything. */
export class TrainedBatches {
  readonly #limit: number;
  /** Batches in a row that trained nothing, for a reason that will not pass by itself. */
  #empty = 0;
  #trainedAny = false;
  #last: StepRecord | undefined;

  /** @param records  of the steps done so far: a controller that takes a job over goes on counting. */
  constructor(records: readonly StepRecord[], steps: number) {
    this.#limit = Math.min(EMPTY_BATCHES_LIMIT, steps);
    for (const record of records) this.#count(record);
  }

  /** What people should read after this step. @throws NothingLearnedError after too many empty batches. */
  add(record: StepRecord): Notice[] {
    this.#count(record);
    if (record.episodes > 0) return [];
    if (this.#empty >= this.#limit)
      throw nothingTrained(record, `Steps without a trained episode in a row: ${this.#empty}.`);
    const after = isOutage(record)
      ? "It was an outage, which by itself does not fail the job."
      : `After ${this.#limit} such steps in a row the job fails.`;
    return [create(NoticeSchema, { reason: "NothingTrained", message: `${sayingOf(record)} ${after}` })];
  }

  /** After the last step. @throws NothingLearnedError when none of them has trained anything, for whatever reason. */
  end(): void {
    if (this.#last && !this.#trainedAny) throw nothingTrained(this.#last, "No step of the job has.");
  }

  /** An outage passes, and the job is to outlive it, so such a batch is not counted. */
  #count(record: StepRecord): void {
    this.#last = record;
    if (record.episodes > 0) [this.#empty, this.#trainedAny] = [0, true];
    else if (!isOutage(record)) this.#empty += 1;
  }
}

/** Most of the batch was lost to our services, not to its agent, environment or tasks. */
function isOutage({ voided, metrics }: StepRecord): boolean {
  return 2 * (metrics["voided/infrastructure"] ?? 0) > voided;
}

function sayingOf({ step, voided, commonestFailure }: StepRecord): string {
  return `Step ${step + 1} trained nothing: ${nothingOf(voided, "trained", commonestFailure)}.`;
}

function nothingTrained(record: StepRecord, more: string): NothingLearnedError {
  return new NothingLearnedError("NothingTrained", `${sayingOf(record)} ${more} ${HELP}`);
}

const HELP = "`whet episodes ls JOB --failed` lists them.";

/** A job that only evaluates and could score nothing has no result. @throws NothingLearnedError */
export function refuseUnscored(results: readonly ValidationResult[]): void {
  if (results.length === 0 || results.some(({ episodes }) => episodes > 0)) return;
  const voided = results.reduce((sum, result) => sum + result.voided, 0);
  const commonest = results[0]?.commonestFailure ?? "";
  const message = `Nothing could be scored: ${nothingOf(voided, "scored", commonest)}. ${HELP}`;
  throw new NothingLearnedError("NothingScored", message);
}

/** "0 of 64 episodes scored; commonest: …" */
function nothingOf(voided: number, done: "trained" | "scored", commonest: string): string {
  return `0 of ${voided} episodes ${done}${commonest === "" ? "" : `; commonest: ${commonest}`}`;
}
