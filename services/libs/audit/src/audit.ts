// SPDX-License-Identifier: Apache-2.0
/**
 * The books of a job, counted again from what lies in its streams, its ledger and its checkpoint (I1, I2, I3, I5).
 * Nothing that a service says of itself is believed. Facts are fed in one at a time, in the order of `Auditor`'s methods,
 * so that bodies pass through and only ids stay in memory. Pure: no I/O, no clock.
 */
import { baselineGroup, dispatchedGroups, episodeId, trainGroup } from "@whetstone/core";
import type { BaselineEntry, BatchEntry, BatchManifest, DispatchRecord } from "@whetstone/proto/events/v1/events";
import type { StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import { Purpose } from "@whetstone/proto/types/v1/types";

import { bodyFault, checkBaselines, placeFault } from "./audit-baselines.ts";
import { type AuditResult, type CheckpointFacts, claimOf, type ConsumedBatch, type Dispatched } from "./audit-facts.ts";
import { type Entry, type JobFacts, type LedgerBatch, type SealedEpisode } from "./audit-facts.ts";
import { AuditReport } from "./audit-report.ts";
import { checkTokens } from "./audit-tokens.ts";

export class Auditor {
  readonly #job: JobFacts;
  readonly #report = new AuditReport();
  readonly #batches = new Map<number, LedgerBatch>();
  readonly #entries = new Map<string, Entry>();
  readonly #voided = new Set<string>();
  readonly #dispatched = new Map<string, Dispatched>();
  /** Seen in the TASK or EPISODE stream. */
  readonly #seen = new Set<string>();
  readonly #sealed = new Set<string>();
  readonly #records = new Map<number, StepRecord>();

  constructor(job: JobFacts) {
    this.#job = job;
  }

  /** First: what the ledger claims. An id may be in one list of one manifest (I1). */
  addBatch(batch: LedgerBatch): void {
    const { manifest } = batch;
    this.#batches.set(manifest.step, batch);
    for (const entry of manifest.entries) this.#addEntry(manifest, entry, false);
    for (const entry of manifest.baselines) this.#addEntry(manifest, entry, true);
    for (const { episodeId } of manifest.voided) if (this.#claim(episodeId, manifest.step)) this.#voided.add(episodeId);
  }

  #addEntry({ step, maxPolicyLag }: BatchManifest, entry: BatchEntry | BaselineEntry, isBaseline: boolean): void {
    if (!this.#claim(entry.episodeId, step)) return;
    const { group, sequence, digest, reward } = entry;
    this.#entries.set(entry.episodeId, {
      ...{ step, group, sequence, digest, reward, isBaseline, maxPolicyLag },
      bodyFound: false,
      isChecked: false,
      faults: [],
      tokens: { stale: 0, unlabelled: 0 },
      isDropped: false,
    });
  }

  hasBatch(step: number): boolean {
    return this.#batches.has(step);
  }

  #claim(id: string, step: number): boolean {
    const before = this.#entries.get(id);
    if (!before && !this.#voided.has(id)) return true;
    const where = before ? `the batch of step ${before.step}` : "a voided list";
    this.#report.add("duplicated", id, `listed again in the batch of step ${step}, after ${where}`);
    return false;
  }

  /** Second, and after all manifests: what was dispatched. Refills that a manifest names are in the record by then. */
  addDispatch(record: DispatchRecord): void {
    const { step, samples, baselines } = record;
    dispatchedGroups(record).forEach((index, i) => {
      const group = trainGroup(index);
      this.#addPlaces(group, samples[i] ?? 0, { step, group, isBaseline: false });
      this.#addPlaces(baselineGroup(index), baselines[i] ?? 0, { step, group, isBaseline: true });
    });
  }

  #addPlaces(name: string, count: number, dispatched: Dispatched): void {
    for (let sample = 0; sample < count; sample += 1)
      this.#dispatched.set(episodeId(this.#job.name, name, sample), dispatched);
  }

  /** What a step's record says was trained, and what could not be. */
  addStepRecord(record: StepRecord): void {
    this.#records.set(record.step, record);
  }

  /** Third: tasks not yet acknowledged. Before the episodes: a task leaves its stream after its episode is sealed. */
  addTask(id: string): void {
    this.#seen.add(id);
  }

  /** Fourth: every message of the EPISODE stream. */
  addSealed(message: SealedEpisode): void {
    if (this.#sealed.has(message.id)) {
      this.#report.add("duplicated", message.id, `sealed twice, again at sequence ${message.sequence}`);
      return;
    }
    this.#sealed.add(message.id);
    this.#seen.add(message.id);
    const entry = this.#entries.get(message.id);
    if (entry) this.#checkBody(message, entry);
  }

  #checkBody({ id, sequence, digest, episode }: SealedEpisode, entry: Entry): void {
    const { faults, step, maxPolicyLag, isBaseline } = entry;
    entry.bodyFound = true;
    const lost = (reason: string): void => void faults.push({ kind: "lost", reason });
    if (sequence !== entry.sequence) return lost(`its batch names sequence ${entry.sequence}, it lies at ${sequence}`);
    if (digest !== entry.digest) return lost("its body is not the one its batch names: digests differ");
    if (!episode || episode.id !== id) return lost("its body cannot be read or is another episode");
    const mislabelled = bodyFault(entry, episode);
    if (mislabelled !== undefined) return lost(mislabelled);
    entry.isChecked = true;
    if (episode.purpose === Purpose.DEMONSTRATION) return; // not sampled: no version to be of
    const { stale, unlabelled, reason = "" } = (entry.tokens = checkTokens(episode, step, maxPolicyLag));
    if (stale > 0)
      faults.push({
        kind: "stale",
        reason: `${reason}, ${isBaseline ? "used" : "trained"} in step ${step} with lag ${maxPolicyLag}`,
      });
    if (unlabelled > 0) faults.push({ kind: "unlabelled", reason: `${unlabelled} sampled tokens have no version` });
  }

  /** Dispatched ids of batches without a manifest that are nowhere. Look again: a record is written before its tasks. */
  missing(): string[] {
    if (this.#job.phase === "ended" || this.#job.phase === "suspended") return [];
    return [...this.#dispatched]
      .filter(([id, { step }]) => !this.#batches.has(step) && !this.#seen.has(id))
      .map(([id]) => id);
  }

  /** Last: the checkpoint, read after everything else, and the sums. Undefined: there is none. */
  finish(checkpoint: CheckpointFacts | undefined): AuditResult {
    this.#markDropped(checkpoint);
    this.#checkDispatched();
    checkBaselines(this.#job.name, this.#entries, this.#dispatched.values(), this.#report);
    this.#checkBodies();
    this.#checkRecords();
    this.#checkConsumed(checkpoint);
    return this.#sum(checkpoint);
  }

  /** The record of a step and the checkpoint say the same; the newest step may have only one of them. */
  #markDropped(checkpoint: CheckpointFacts | undefined): void {
    const inCheckpoint = (checkpoint?.consumed ?? []).flatMap(({ step, dropped }) =>
      dropped.map((id) => ({ step, id })),
    );
    const inRecords = [...this.#records.values()].flatMap(({ step, dropped }) =>
      dropped.map(({ episodeId }) => ({ step, id: episodeId })),
    );
    for (const { step, id } of [...inCheckpoint, ...inRecords]) {
      const entry = this.#entries.get(id);
      if (entry?.step === step && !entry.isBaseline) entry.isDropped = true;
      else this.#report.add("lost", id, `step ${step} says that it could not train it, but its batch does not list it`);
    }
  }

  #checkDispatched(): void {
    for (const [id, { step, group, isBaseline }] of this.#dispatched) {
      const entry = this.#entries.get(id);
      if (this.#batches.has(step) && !entry && !this.#voided.has(id))
        this.#report.add(
          "lost",
          id,
          `the batch of step ${step} neither ${isBaseline ? "uses" : "trains"} nor voids it`,
        );
      const fault = entry && placeFault(entry, { step, group, isBaseline });
      if (fault !== undefined) this.#report.add("lost", id, fault);
    }
    for (const id of this.missing())
      this.#report.add("lost", id, "dispatched, but neither a task nor an episode of it exists");
    for (const id of [...this.#entries.keys(), ...this.#voided]) {
      if (!this.#dispatched.has(id)) this.#report.add("lost", id, "in a batch, but no record says it was dispatched");
    }
  }

  #checkBodies(): void {
    for (const [id, entry] of this.#entries) {
      const { bodyFound, faults, step, isDropped } = entry;
      if (isDropped) continue;
      if (!bodyFound)
        this.#report.add("lost", id, `step ${step} ${claimOf(entry)} it, but its body is not in the stream`);
      for (const { kind, reason } of faults) this.#report.add(kind, id, reason);
    }
  }

  #checkRecords(): void {
    for (const [step, { batchDigest }] of this.#records) {
      const batch = this.#batches.get(step);
      if (batch?.digest === batchDigest) continue;
      const reason = batch
        ? "its record names another batch than the ledger"
        : "trained, but the ledger has no batch of it";
      this.#report.add("lost", `${this.#job.name} step ${step}`, reason, sizeOf(batch));
    }
  }

  #checkConsumed(checkpoint: CheckpointFacts | undefined): void {
    const consumed = new Map<number, string>();
    for (const entry of checkpoint?.consumed ?? []) {
      const { step, batchDigest } = entry;
      const batch = this.#batches.get(step);
      const name = `${this.#job.name} step ${step}`;
      const fault = this.#consumedFault(entry, batch);
      if (consumed.has(step))
        this.#report.add("duplicated", name, "the checkpoint has consumed its batch twice", sizeOf(batch));
      else if (batch?.digest !== batchDigest)
        this.#report.add("lost", name, "the checkpoint has trained another batch than the ledger's", sizeOf(batch));
      else if (fault !== undefined) this.#report.add("lost", name, fault);
      consumed.set(step, batchDigest);
    }
    for (let step = 0; step < this.#mustBeConsumed(checkpoint); step += 1) {
      if (consumed.has(step)) continue;
      this.#report.add(
        "lost",
        `${this.#job.name} step ${step}`,
        "done, but the checkpoint has not consumed its batch",
        sizeOf(this.#batches.get(step)),
      );
    }
  }

  /** How the checkpoint's count of a batch differs from the ledger's and the record's; undefined: it does not. */
  #consumedFault({ step, episodes, dropped }: ConsumedBatch, batch: LedgerBatch | undefined): string | undefined {
    const counted = episodes + dropped.length;
    const entries = batch?.manifest.entries.length ?? 0;
    if (entries !== counted) return `the checkpoint counts ${counted} episodes, the batch has ${entries}`;
    const recorded = this.#records.get(step)?.dropped.map(({ episodeId }) => episodeId);
    if (recorded === undefined || recorded.join() === dropped.join()) return undefined;
    return "its record and the checkpoint name different episodes that it could not train";
  }

  /**
   * Steps that a checkpoint must know: all of a job that succeeded, else up to the newest that had to be written before
   * the last step began. That of the last step itself is written after its record.
   */
  #mustBeConsumed(checkpoint: CheckpointFacts | undefined): number {
    const done = this.#stepsDone();
    if (this.#job.phase === "succeeded") return done;
    const every = this.#job.checkpointEvery;
    return Math.max(Math.floor((done - 1) / every) * every, Math.min(checkpoint?.step ?? 0, done));
  }

  #stepsDone(): number {
    return Math.max(0, ...[...this.#records.keys()].map((step) => step + 1));
  }

  #sum(checkpoint: CheckpointFacts | undefined): AuditResult {
    const done = Math.max(this.#stepsDone(), checkpoint?.step ?? 0);
    const settled = [...this.#entries.values()].filter((entry) => entry.step < done);
    const entries = settled.filter(({ isDropped }) => !isDropped);
    const trained = entries.filter(({ isBaseline }) => !isBaseline);
    const dropped = settled.length - entries.length;
    const unfinished = [...this.#dispatched.keys()].filter(
      (id) => !this.#entries.has(id) && !this.#voided.has(id),
    ).length;
    const waiting = this.#entries.size - settled.length;
    const lostUnlisted = this.#report.lostIds((id) => this.#dispatched.has(id) && !this.#entries.has(id));
    const open = unfinished - lostUnlisted + waiting;
    // An ended job voids whatever was on its way; a batch may never be made of it.
    const ended = this.#job.phase === "ended";
    const { lost, duplicated } = this.#report.counts;
    return {
      job: this.#job.name,
      dispatched: this.#dispatched.size,
      trained: trained.length,
      baseline: entries.length - trained.length,
      voided: this.#voided.size + dropped + (ended ? open : 0),
      inFlight: ended ? 0 : open,
      lost,
      duplicated,
      stale: entriesSum(entries, "stale"),
      unlabelled: entriesSum(entries, "unlabelled"),
      checkedEpisodes: trained.filter(({ isChecked }) => isChecked).length,
      violations: this.#report.first,
    };
  }
}

function entriesSum(entries: readonly Entry[], kind: "stale" | "unlabelled"): number {
  return entries.reduce((sum, { tokens }) => sum + tokens[kind], 0);
}

function sizeOf(batch: LedgerBatch | undefined): number {
  return Math.max(1, batch?.manifest.entries.length ?? 1);
}
