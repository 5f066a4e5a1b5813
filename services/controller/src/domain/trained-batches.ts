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
  #empty = 0;

  /** @param records  of the steps done so far: a controller that takes a job over goes on counting. */
  constructor(records: readonly StepRecord[], steps: number) {
    this.#limit = Math.min(EMPTY_BATCHES_LIMIT, steps);
    for (const record of records) this.#count(record);
  }

  /** What people should read after this step. @throws NothingLearnedError after too many empty batches. */
  add(record: StepRecord): Notice[] {
    this.#count(record);
    if (this.#empty === 0) return [];
    const said = `Step ${record.step + 1} trained nothing: ${nothingOf(record.voided, "trained", record.commonestFailure)}.`;
    if (this.#empty >= this.#limit)
      throw new NothingLearnedError(
        "NothingTrained",
        `${said} Steps without a trained episode in a row: ${this.#empty}. ${HELP}`,
      );
    const message = `${said} After ${this.#limit} such steps in a row the job fails.`;
    return [create(NoticeSchema, { reason: "NothingTrained", message })];
  }

  #count({ episodes }: StepRecord): void {
    this.#empty = episodes === 0 ? this.#empty + 1 : 0;
  }
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
