// SPDX-License-Identifier: Apache-2.0
import { runInTurns } from "@whetstone/core";
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import {
  type EpisodeCounts,
  type JobStatus,
  type StepRecord,
  JobPhase,
  type ValidationResult,
} from "@whetstone/proto/jobs/v1/jobs";
import { countManifest } from "./batch/manifest-bytes.ts";
import type { Notice } from "@whetstone/proto/trainer/v1/trainer";

/** At most one write of counts in this time; steps and validations are written at once. */
const COUNTS_EVERY_MS = 1000;

export interface BoardSinks {
  /** Stores the job's status. */
  write(change: (status: JobStatus) => void): Promise<void>;
  onStep(record: StepRecord): Promise<void>;
  onValidation(result: ValidationResult): Promise<void>;
}

interface Settled {
  readonly trained: number;
  readonly voided: number;
  readonly baseline: number;
}

const NONE: Settled = { trained: 0, voided: 0, baseline: 0 };

/** Writes a running job's progress into its record, rarely enough for thousands of episodes a second. */
export class StatusBoard {
  readonly #sinks: BoardSinks;
  readonly #validations: ValidationResult[];
  #count: (() => Promise<EpisodeCounts>) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** By who said them, the latest last. */
  readonly #notices = new Map<string, readonly Notice[]>();
  /** Episodes of each step: as its record says, or as its manifest does while it has none. */
  readonly #steps = new Map<number, Settled>();
  #settled = NONE;

  constructor(sinks: BoardSinks, known: readonly ValidationResult[]) {
    this.#sinks = sinks;
    this.#validations = [...known];
  }

  get validations(): readonly ValidationResult[] {
    return this.#validations;
  }

  countWith(count: () => Promise<EpisodeCounts>): void {
    this.#count = count;
  }

  /** The records of steps that were done before. */
  recorded(records: readonly StepRecord[]): void {
    for (const { step, episodes, voided, baselines } of records)
      this.#settle(step, { trained: episodes, voided, baseline: baselines });
  }

  async step(record: StepRecord): Promise<void> {
    this.recorded([record]);
    await this.#sinks.onStep(record);
    await this.#write((status) => {
      if (status.step > record.step) return; // Written before; its answer was lost.
      status.step = record.step + 1;
      status.tokensSampled += record.tokensSampled;
      status.lastStep = record;
    });
  }

  async policy(policy: PolicyRecord): Promise<void> {
    await this.#write((status) => {
      status.policyVersion = policy.policyVersion;
      status.modelPath = policy.path;
    });
  }

  async validated(results: readonly ValidationResult[]): Promise<void> {
    if (results.length === 0) return;
    this.#validations.push(...results);
    for (const result of results) await this.#sinks.onValidation(result);
    await this.#write((status) => {
      status.validations = [...this.#validations];
    });
  }

  /** What people should read now: reason and message of a running job. Replaces what the same source said before. */
  notices(source: string, notices: readonly Notice[]): void {
    if (textOf(this.#notices.get(source) ?? []) === textOf(notices)) return;
    this.#notices.delete(source);
    this.#notices.set(source, notices);
    this.#write(() => undefined).catch(() => undefined); // The next write carries them again.
  }

  /** Something was dispatched or sealed: the counts are written soon. */
  touch(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#write(() => undefined).catch(() => undefined); // The next write carries the counts again.
    }, COUNTS_EVERY_MS);
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#write(() => undefined);
  }

  /**
   * Trained, voided and baseline episodes of all steps whose manifests are there, those that a step dropped among the voided. A manifest
   * never changes, so that it is read once, and not at all where the step's record says the same.
   */
  async settled(batches: number, manifest: (step: number) => Promise<Uint8Array | undefined>): Promise<Settled> {
    while (this.#steps.size < batches) {
      const step = this.#steps.size;
      const bytes = await manifest(step);
      if (!bytes) break;
      const { entries, voided, baselines } = await runInTurns(countManifest(bytes));
      if (!this.#steps.has(step)) this.#settle(step, { trained: entries, voided, baseline: baselines });
    }
    return this.#settled;
  }

  #settle(step: number, now: Settled): void {
    const former = this.#steps.get(step) ?? NONE;
    const { trained, voided, baseline } = this.#settled;
    this.#settled = {
      trained: trained + now.trained - former.trained,
      voided: voided + now.voided - former.voided,
      baseline: baseline + now.baseline - former.baseline,
    };
    this.#steps.set(step, now);
  }

  #write(change: (status: JobStatus) => void): Promise<void> {
    this.#writing = this.#writing
      .catch(() => undefined)
      .then(async () => {
        const counts = await this.#count?.();
        await this.#sinks.write((status) => {
          change(status);
          this.#tell(status);
          if (counts) status.episodes = counts;
        });
      });
    return this.#writing;
  }

  /** Until the first notice the reason is that of whoever made the job RUNNING. */
  #tell(status: JobStatus): void {
    if (status.phase !== JobPhase.RUNNING || this.#notices.size === 0) return;
    const notices = [...this.#notices.values()].reverse().flat();
    status.reason = notices[0]?.reason ?? "Training";
    status.message = notices.map(({ message }) => message).join(" ");
  }
}

function textOf(notices: readonly Notice[]): string {
  return notices.map(({ reason, message }) => `${reason} ${message}`).join("\n");
}
