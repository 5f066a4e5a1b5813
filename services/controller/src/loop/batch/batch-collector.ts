// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { inTurns } from "@whetstone/core";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  DispatchRecordSchema,
  type RolloutTask,
} from "@whetstone/proto/events/v1/events";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { type BatchPlan, planBatch } from "./batch.ts";
import { batchMetrics } from "./batch-metrics.ts";
import { commonestFailure } from "./commonest-failure.ts";
import type { TaskList } from "../../datasets/dataset.ts";
import { admissibleBatches } from "../admission.ts";
import { trainEpisodeId, trainTask } from "./tasks.ts";
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
  #liveVersion = 0;

  constructor(context: JobContext, parts: Parts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** Reads former dispatches and puts back into the queue what was never sealed. */
  async restore(signal: AbortSignal): Promise<void> {
    this.#dispatches = await this.#parts.ledger.dispatches();
    for (const record of this.#dispatches)
      if (!(await this.#parts.ledger.manifest(record.step))) await this.#publish(record, signal);
  }

  live(version: number): void {
    this.#liveVersion = version;
  }

  /** Samples dispatched so far, by batch. */
  get dispatched(): readonly DispatchRecord[] {
    return this.#dispatches;
  }

  /** Dispatches what the staleness budget allows while `step` is next. */
  async admit(step: number, signal: AbortSignal): Promise<void> {
    const facts = { liveVersion: Math.max(step, this.#liveVersion), dispatchedBatches: this.#dispatches.length };
    for (const batch of admissibleBatches(this.#context.job, facts)) {
      const samples = Array.from({ length: this.#context.job.batchGroups }, () => this.#context.job.groupSize);
      await this.#dispatch(batch, samples, signal);
    }
  }

  /** Waits until every id of the batch is sealed and its manifest is in the ledger. */
  async collect(step: number, signal: AbortSignal): Promise<CollectedBatch> {
    for (;;) {
      await this.#sealed(step, signal);
      const plan = this.#plan(step);
      if (plan.kind === "complete") return this.#seal(step, plan);
      if (plan.kind === "refill") await this.#dispatch(step, plan.samples, signal);
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

  #plan(step: number): BatchPlan {
    return planBatch(this.#context.job, step, this.#recordOf(step).samples, this.#parts.episodes.find);
  }

  #recordOf(step: number): DispatchRecord {
    const record = this.#dispatches[step];
    if (!record) throw new Error(`batch ${step} was never dispatched`);
    return record;
  }

  async #seal(step: number, plan: Extract<BatchPlan, { kind: "complete" }>): Promise<CollectedBatch> {
    const { job } = this.#context;
    const manifest = create(BatchManifestSchema, {
      job: job.name,
      step,
      epoch: this.#parts.ledger.epoch,
      entries: plan.entries,
      voided: plan.voided,
      maxPolicyLag: job.maxPolicyLag,
      createdAt: timestampNow(),
    });
    return this.#collectedFrom(await this.#parts.ledger.createManifest(manifest));
  }

  #collectedFrom(bytes: Uint8Array): CollectedBatch {
    const manifest = fromBinary(BatchManifestSchema, bytes);
    const summaries = manifest.entries.flatMap(({ episodeId }) => this.#summaryOf(episodeId) ?? []);
    const tokensSampled = summaries.reduce((sum, summary) => sum + summary.sampledTokens, 0);
    const voided = manifest.voided.map(({ episodeId, reason }) => ({ summary: this.#summaryOf(episodeId), reason }));
    const metrics = batchMetrics(summaries, manifest.voided);
    return { manifest, tokensSampled, metrics, commonestFailure: commonestFailure(voided) };
  }

  #summaryOf(episodeId: string): EpisodeSummary | undefined {
    return this.#parts.episodes.find(episodeId)?.summary;
  }

  /** The record goes first: an id that was ever queued is in the books (I2). */
  async #dispatch(step: number, samples: readonly number[], signal: AbortSignal): Promise<void> {
    const policyVersion = BigInt(this.#liveVersion);
    const record = create(DispatchRecordSchema, {
      job: this.#context.job.name,
      step,
      samples: [...samples],
      policyVersion,
    });
    await this.#parts.ledger.saveDispatch(record);
    this.#dispatches[step] = record;
    await this.#publish(record, signal);
  }

  async #publish(record: DispatchRecord, signal: AbortSignal): Promise<void> {
    await this.#parts.queue.publish(this.#unsealed(record), signal);
    this.#context.onCounts();
  }

  async *#unsealed(record: DispatchRecord): AsyncGenerator<RolloutTask> {
    const { spec, job } = this.#context;
    for await (const { id, group, sample } of inTurns(this.#places(record))) {
      if (this.#parts.episodes.find(id)) continue;
      yield trainTask(spec, job, { group, sample, task: await this.#parts.tasks.at(group) });
    }
  }

  /** The places of a batch, in order. */
  *#places({ step, samples }: DispatchRecord): Generator<{ id: string; group: number; sample: number }> {
    const { name, batchGroups } = this.#context.job;
    for (const [i, count] of samples.entries()) {
      const group = step * batchGroups + i;
      for (let sample = 0; sample < count; sample++) yield { id: trainEpisodeId(name, group, sample), group, sample };
    }
  }
}
