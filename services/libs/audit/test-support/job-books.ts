// SPDX-License-Identifier: Apache-2.0
/** Writes the books of a job as controller, orchestrator and trainer would, so that a test can falsify them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { create, toBinary } from "@bufbuild/protobuf";
import type { NatsConnection } from "@nats-io/nats-core";
import type { TypedStreams } from "@whetstone/messaging";
import {
  JOBS_BUCKET,
  LEDGER_BUCKET,
  ensureJobStreams,
  ensurePlatform,
  episodeSubject,
  openKv,
  openStreams,
  sha256Hex,
  taskSubject,
} from "@whetstone/messaging";
import type { BatchEntry, BatchManifest } from "@whetstone/proto/events/v1/events";
import {
  BaselineEntrySchema,
  BatchManifestSchema,
  DispatchRecordSchema,
  RolloutTaskSchema,
  VoidedEntrySchema,
} from "@whetstone/proto/events/v1/events";
import { JobPhase, JobSchema, StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Episode } from "@whetstone/proto/types/v1/types";
import { EpisodeSchema, Purpose } from "@whetstone/proto/types/v1/types";

export const JOB = "lake";
export const UID = "uid-1";
const GROUPS = 2;
const SAMPLES = 2;

export interface Sealed {
  readonly sequence: bigint;
  readonly digest: string;
}

export class JobBooks {
  readonly runsFolder: string;
  readonly #connection: NatsConnection;
  #streams!: TypedStreams;
  readonly sealed = new Map<string, Sealed>();
  readonly digests = new Map<number, string>();
  readonly #consumed: { step: number; batchDigest: string; episodes: number; dropped: string[] }[] = [];

  constructor(connection: NatsConnection, runsFolder: string) {
    this.#connection = connection;
    this.runsFolder = runsFolder;
  }

  async open(phase = JobPhase.RUNNING): Promise<void> {
    await ensurePlatform(this.#connection);
    await ensureJobStreams(this.#connection, JOB);
    this.#streams = await openStreams(this.#connection);
    const jobs = await openKv(this.#connection, JOBS_BUCKET, JobSchema);
    const spec = { name: JOB, loop: { steps: 2, batchGroups: GROUPS } };
    await jobs.put(JOB, { uid: UID, spec, status: { phase } });
  }

  /** Ids of a batch, refills not counted. */
  ids(step: number): string[] {
    const groups = Array.from({ length: GROUPS }, (_, index) => step * GROUPS + index);
    return groups.flatMap((group) => Array.from({ length: SAMPLES }, (_, sample) => `${JOB}/g${group}/s${sample}`));
  }

  /** Dispatches and seals a step, and writes its manifest. */
  async batch(step: number, change?: (manifest: BatchManifest) => void): Promise<void> {
    await this.dispatch(step);
    for (const id of this.ids(step)) await this.seal(id, step);
    await this.manifest(step, change);
  }

  /** A step from dispatch to checkpoint, all in order. */
  async cleanStep(step: number): Promise<void> {
    await this.batch(step);
    await this.record(step);
    this.consume(step);
  }

  /** From dispatch to manifest, each group with a baseline; the first group's had to be played again. */
  async stepWithBaselines(step: number, change?: (manifest: BatchManifest) => void, version = step): Promise<void> {
    const [first, second] = [step * GROUPS, step * GROUPS + 1];
    await this.dispatch(step, undefined, [2, 1]);
    for (const id of this.ids(step)) await this.seal(id, step);
    const [failed, ...used] = [`${JOB}/b${first}/s0`, `${JOB}/b${first}/s1`, `${JOB}/b${second}/s0`];
    const asBaseline = (episode: Episode): void => void (episode.purpose = Purpose.BASELINE);
    for (const id of [failed, ...used]) await this.seal(id, version, asBaseline);
    await this.manifest(step, (manifest) => {
      manifest.voided = [create(VoidedEntrySchema, { episodeId: failed, failureClass: 4, reason: "RetriesExhausted" })];
      manifest.baselines = used.map((episodeId, i) => {
        const group = `g${first + i}`;
        return create(BaselineEntrySchema, { episodeId, group, ...this.sealed.get(episodeId) });
      });
      change?.(manifest);
    });
  }

  async dispatch(
    step: number,
    samples = Array.from({ length: GROUPS }, () => SAMPLES),
    baselines: number[] = [],
  ): Promise<void> {
    const ledger = await openKv(this.#connection, LEDGER_BUCKET, DispatchRecordSchema);
    await ledger.put(`${JOB}.dispatch.${step}`, { job: JOB, step, samples, baselines, policyVersion: BigInt(step) });
  }

  async task(id: string): Promise<void> {
    await this.#streams.publish(taskSubject(JOB), RolloutTaskSchema, { episodeId: id, job: JOB });
  }

  /** An episode of two calls, three tokens each, sampled by `version`; `change` falsifies it. */
  async seal(
    id: string,
    version: number,
    change: (episode: Episode) => void = () => {},
    subject = subjectOf(id),
  ): Promise<void> {
    const call = (name: string) => ({
      id: name,
      promptIds: [1, 2],
      completionIds: [3, 4, 5],
      logprobs: [-1, -2, -3],
      versionSpans: [{ start: 0, end: 3, policyVersion: BigInt(version) }],
    });
    const episode = create(EpisodeSchema, { id, job: JOB, purpose: Purpose.TRAIN, calls: [call("c0"), call("c1")] });
    change(episode);
    const { sequence } = await this.#streams.publish(subject, EpisodeSchema, episode, { msgId: id });
    const digest = sha256Hex(toBinary(EpisodeSchema, episode));
    if (!this.sealed.has(id)) this.sealed.set(id, { sequence: BigInt(sequence), digest });
  }

  /** Entries of all sealed ids of the batch; `change` falsifies the manifest. */
  async manifest(step: number, change: (manifest: BatchManifest) => void = () => {}): Promise<void> {
    const entries = this.ids(step).flatMap((id) => this.entry(id));
    const manifest = create(BatchManifestSchema, { job: JOB, step, entries, maxPolicyLag: 1 });
    change(manifest);
    const ledger = await openKv(this.#connection, LEDGER_BUCKET, BatchManifestSchema);
    await ledger.put(`${JOB}.batch.${step}`, manifest);
    this.digests.set(step, sha256Hex(toBinary(BatchManifestSchema, manifest)));
  }

  entry(id: string): BatchEntry[] {
    const sealed = this.sealed.get(id);
    const base = {
      $typeName: "whetstone.events.v1.BatchEntry",
      episodeId: id,
      group: id.split("/")[1] ?? "",
      reward: 0,
    } as const;
    return sealed ? [{ ...base, ...sealed }] : [];
  }

  async record(step: number, batchDigest = this.digests.get(step) ?? "", dropped: string[] = []): Promise<void> {
    const ledger = await openKv(this.#connection, LEDGER_BUCKET, StepRecordSchema);
    const entries = dropped.map((episodeId) => ({ episodeId, reason: "Unreadable" }));
    await ledger.put(`${JOB}.step.${step}`, { step, batchDigest, dropped: entries });
  }

  /** Adds a batch to the newest checkpoint's consumed list. */
  consume(
    step: number,
    batchDigest = this.digests.get(step) ?? "",
    episodes = GROUPS * SAMPLES,
    dropped: string[] = [],
  ): void {
    this.#consumed.push({ step, batchDigest, episodes, dropped });
    this.checkpoint(step + 1);
  }

  checkpoint(step: number): void {
    const folder = join(this.runsFolder, UID, "checkpoints", `step-${step}`);
    mkdirSync(folder, { recursive: true });
    const state = {
      format: "whetstone.checkpoint/v1",
      jobUid: UID,
      step,
      policyVersion: step,
      consumed: this.#consumed,
    };
    writeFileSync(join(folder, "state.json"), JSON.stringify(state));
  }
}

function subjectOf(id: string): string {
  const [, group = "", sample = ""] = id.split("/");
  return episodeSubject(JOB, group, Number(sample.slice(1)));
}

/** A call's tokens from `start` to `end`, sampled under a version. */
export function span(start: number, end: number, version: number) {
  return { $typeName: "whetstone.types.v1.VersionSpan" as const, start, end, policyVersion: BigInt(version) };
}
