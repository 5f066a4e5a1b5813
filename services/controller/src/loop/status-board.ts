// SPDX-License-Identifier: Apache-2.0
import { fromBinary } from "@bufbuild/protobuf";
import { BatchManifestSchema, type PolicyRecord } from "@whetstone/proto/events/v1/events";
import {
  type EpisodeCounts,
  type JobStatus,
  type StepRecord,
  JobPhase,
  type ValidationResult,
} from "@whetstone/proto/jobs/v1/jobs";
import type { Notice } from "@whetstone/proto/trainer/v1/trainer";

/** At most one write of counts in this time; steps and validations are written at once. */
const COUNTS_EVERY_MS = 1000;

export interface BoardSinks {
  /** Stores the job's status. */
  write(change: (status: JobStatus) => void): Promise<void>;
  onStep(record: StepRecord): Promise<void>;
  onValidation(result: ValidationResult): Promise<void>;
}

/** Writes a running job's progress into its record, rarely enough for thousands of episodes a second. */
export class StatusBoard {
  readonly #sinks: BoardSinks;
  readonly #validations: ValidationResult[];
  #count: (() => Promise<EpisodeCounts>) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** By who said them, the latest last. */
  readonly #notices = new Map<string, readonly Notice[]>();
  #settled = { batches: 0, trained: 0, voided: 0 };
  /** How many entries of its manifest each step dropped. */
  readonly #dropped = new Map<number, number>();

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
    for (const { step, dropped } of records) if (dropped.length > 0) this.#dropped.set(step, dropped.length);
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
   * Entries and voided ids of all manifests so far, those that a step dropped among the voided. Each manifest is read once,
   * since it never changes.
   */
  async settled(
    batches: number,
    manifest: (step: number) => Promise<Uint8Array | undefined>,
  ): Promise<{ trained: number; voided: number }> {
    while (this.#settled.batches < batches) {
      const bytes = await manifest(this.#settled.batches);
      if (!bytes) break;
      const { entries, voided } = fromBinary(BatchManifestSchema, bytes);
      this.#settled.trained += entries.length;
      this.#settled.voided += voided.length;
      this.#settled.batches++;
    }
    const dropped = [...this.#dropped.values()].reduce((sum, count) => sum + count, 0);
    return { trained: this.#settled.trained - dropped, voided: this.#settled.voided + dropped };
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
