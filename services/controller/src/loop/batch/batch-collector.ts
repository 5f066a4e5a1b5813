// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { dispatchedGroups, inTurns, runInTurns } from "@whetstone/core";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  DispatchRecordSchema,
  type RolloutTask,
  type VoidedEntry,
  VoidedEntrySchema,
} from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { type BatchPlan, planBatch, type Settled } from "./batch.ts";
import { BatchMetrics } from "./batch-metrics.ts";
import { FailureTally } from "./commonest-failure.ts";
import type { TaskList } from "../../datasets/dataset.ts";
import { decodeManifest } from "./manifest-bytes.ts";
import { admissibleBatches } from "../admission.ts";
import type { KeptSummary } from "./sealed-episode.ts";
import { type Dispatched, type TrainPlace, trainPlaces, trainTask } from "./tasks.ts";
import type { JobContext } from "../job-context.ts";
import type { EpisodeIndex, Ledger, TaskQueue } from "../ports.ts";

export interface CollectedBatch {
  readonly manifest: BatchManifest;
  readonly metrics: Record<string, number>;
  readonly tokensSampled: number;
  /** Of those voided, for people. */
  readonly commonestFailure: string;
}

interface Parts {
  readonly ledger: Ledger;
  readonly episodes: EpisodeIndex;
  readonly queue: TaskQueue;
  readonly tasks: TaskList;
}

/**
 * Dispatches batches and waits until they are sealed. Holds nothing that the ledger and the EPISODE stream do not give back:
 * a new collector, after a crash, goes on where the old one was.
 */
export class BatchCollector {
  readonly #context: JobContext;
  readonly #parts: Parts;
  #dispatches: DispatchRecord[] = [];
  #dispatchedEpisodes = 0;
  #nextGroup = 0;
  #liveVersion = 0;

  constructor(context: JobContext, parts: Parts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** Reads former dispatches and puts back into the queue what was never sealed. */
  async restore(signal: AbortSignal): Promise<void> {
    for (const record of await this.#parts.ledger.dispatches()) this.#keep(record);
    const collected = await this.#parts.ledger.collected();
    for (const record of this.#dispatches) if (!collected.has(record.step)) await this.#publish(record, signal);
  }

  live(version: number): void {
    this.#liveVersion = version;
  }

  /** What was dispatched so far, by batch. */
  get dispatched(): readonly DispatchRecord[] {
    return this.#dispatches;
  }

  /** In all batches together. */
  get dispatchedEpisodes(): number {
    return this.#dispatchedEpisodes;
  }

  /** Dispatches what the staleness budget allows while `step` is next. */
  async admit(step: number, signal: AbortSignal): Promise<void> {
    const facts = { liveVersion: Math.max(step, this.#liveVersion), dispatchedBatches: this.#dispatches.length };
    for (const batch of admissibleBatches(this.#context.job, facts)) {
      const { batchGroups, groupSize, hasBaselines } = this.#context.job;
      const samples = Array.from({ length: batchGroups }, () => groupSize);
      const baselines = hasBaselines ? samples.map(() => 1) : [];
      await this.#dispatch({ step: batch, samples, baselines, groups: [] }, signal);
    }
  }

  /** Waits until every id of the batch is sealed and its manifest is in the ledger. */
  async collect(step: number, signal: AbortSignal): Promise<CollectedBatch> {
    for (;;) {
      await this.#sealed(step, signal);
      const plan = await this.#plan(step);
      if (plan.kind === "complete") return this.#seal(step, plan);
      if (plan.kind === "refill") {
        const groups = dispatchedGroups(this.#recordOf(step)).map(BigInt);
        await this.#dispatch({ ...plan, step, groups }, signal);
      }
      this.#context.onCounts();
    }
  }

  /** Waits for each id in turn. To plan costs as much as the batch is large, so it is done once all are there. */
  async #sealed(step: number, signal: AbortSignal): Promise<void> {
    const { episodes } = this.#parts;
    for await (const { id } of inTurns(this.#places(this.#recordOf(step)))) {
      for (let seen = episodes.size; !episodes.find(id); seen = episodes.size) {
        await episodes.grown(seen, signal);
        this.#context.onCounts();
      }
    }
  }

  /** A batch whose manifest is in the ledger. */
  async collected(step: number): Promise<CollectedBatch> {
    const bytes = await this.#parts.ledger.manifest(step);
    if (!bytes) throw new Error(`the trainer has done step ${step}, but the ledger has no manifest of it`);
    return this.#collectedFrom(bytes);
  }

  /** I2: what was dispatched and will never be trained is voided, by manifests without entries. */
  async voidInFlight(): Promise<void> {
    const { ledger } = this.#parts;
    const collected = await ledger.collected();
    for (const record of this.#dispatches) {
      if (collected.has(record.step)) continue;
      const manifest = this.#manifest(record.step);
      for await (const { id } of inTurns(this.#places(record))) manifest.voided.push(cancelled(id));
      await ledger.createManifest(manifest);
    }
  }

  #plan(step: number): Promise<BatchPlan> {
    return runInTurns(planBatch(this.#context.job, this.#recordOf(step), this.#parts.episodes.find));
  }

  #recordOf(step: number): DispatchRecord {
    const record = this.#dispatches[step];
    if (!record) throw new Error(`batch ${step} was never dispatched`);
    return record;
  }

  async #seal(step: number, { entries, baselines, voided }: Settled): Promise<CollectedBatch> {
    const manifest = Object.assign(this.#manifest(step), { entries, baselines, voided });
    return this.#collectedFrom(await this.#parts.ledger.createManifest(manifest));
  }

  /** Without any episodes. */
  #manifest(step: number): BatchManifest {
    const { name: job, maxPolicyLag } = this.#context.job;
    const { epoch } = this.#parts.ledger;
    return create(BatchManifestSchema, { job, step, epoch, maxPolicyLag, createdAt: timestampNow() });
  }

  async #collectedFrom(bytes: Uint8Array): Promise<CollectedBatch> {
    const manifest = await runInTurns(decodeManifest(bytes));
    const metrics = new BatchMetrics();
    const failures = new FailureTally();
    let tokensSampled = 0;
    for await (const { episodeId } of inTurns(manifest.entries)) {
      const summary = this.#summaryOf(episodeId);
      if (!summary) continue;
      metrics.add(summary);
      tokensSampled += summary.sampledTokens;
    }
    for (const { reward } of manifest.baselines) metrics.addBaseline(reward);
    for await (const voided of inTurns(manifest.voided)) {
      metrics.addVoided(voided);
      failures.add({ summary: this.#summaryOf(voided.episodeId), reason: voided.reason });
    }
    return { manifest, tokensSampled, metrics: metrics.metrics(), commonestFailure: failures.commonest() };
  }

  #summaryOf(episodeId: string): KeptSummary | undefined {
    return this.#parts.episodes.find(episodeId)?.summary;
  }

  #keep(record: DispatchRecord): void {
    this.#dispatchedEpisodes += episodesOf(record) - episodesOf(this.#dispatches[record.step]);
    this.#dispatches[record.step] = record;
    this.#nextGroup = Math.max(
      this.#nextGroup,
      ...dispatchedGroups(record)
        .slice(-1)
        .map((last) => last + 1),
    );
  }

  /**
   * The record goes first: an id that was ever queued is in the books (I2). Groups that have no index yet get the next ones, so
   * that each task of the dataset comes once a pass, whatever was replaced.
   */
  async #dispatch({ step, samples, baselines, groups: known }: Dispatched, signal: AbortSignal): Promise<void> {
    const { name: job } = this.#context.job;
    const policyVersion = BigInt(this.#liveVersion);
    const groups = samples.map((_, i) => known[i] ?? BigInt(this.#nextGroup + i - known.length));
    const record = create(DispatchRecordSchema, { job, step, samples, baselines, groups, policyVersion });
    await this.#parts.ledger.saveDispatch(record);
    this.#keep(record);
    await this.#publish(record, signal);
  }

  async #publish(record: DispatchRecord, signal: AbortSignal): Promise<void> {
    await this.#parts.queue.publish(this.#unsealed(record), signal);
    this.#context.onCounts();
  }

  async *#unsealed(record: DispatchRecord): AsyncGenerator<RolloutTask> {
    const { spec, job } = this.#context;
    for await (const place of inTurns(this.#places(record))) {
      if (this.#parts.episodes.find(place.id)) continue;
      yield trainTask(spec, job, { ...place, task: await this.#parts.tasks.at(place.group) });
    }
  }

  #places(record: DispatchRecord): Generator<TrainPlace> {
    return trainPlaces(this.#context.job, record);
  }
}

function episodesOf(record: DispatchRecord | undefined): number {
  return [...(record?.samples ?? []), ...(record?.baselines ?? [])].reduce((sum, count) => sum + count, 0);
}

function cancelled(episodeId: string): VoidedEntry {
  return create(VoidedEntrySchema, { episodeId, failureClass: FailureClass.NONE, reason: "Cancelled" });
}
