// SPDX-License-Identifier: Apache-2.0
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { dispatchedGroups, parseEpisodeId, WhetstoneError } from "@whetstone/core";
import { episodeStream, episodeSubject, type TypedStreams } from "@whetstone/messaging";
import {
  type Checkpoint,
  CheckpointSchema,
  type Job,
  type StepRecord,
  type StreamEpisodesRequest,
} from "@whetstone/proto/jobs/v1/jobs";
import { type Episode, EpisodeSchema, type EpisodeSummary, Purpose } from "@whetstone/proto/types/v1/types";
import { stat } from "node:fs/promises";
import type { readLedger } from "../../loop/batch/kv-ledger.ts";
import { summaryOf } from "../../loop/batch/stream-episode-index.ts";

type LedgerReader = Awaited<ReturnType<typeof readLedger>>;

const MANIFESTS_KEPT = 16;
/** The most that `loop.maxPolicyLag` may be. */
const MAX_POLICY_LAG = 8;
/** Of a batch, which may have tens of thousands of episodes: each is asked for with a deadline of its own. */
const READ_AT_ONCE = 64;

/** Reads what jobs left behind: step records, episodes, checkpoints. Works for finished jobs too. */
export class JobRecords {
  readonly #streams: TypedStreams;
  readonly #ledger: LedgerReader;
  readonly #runPathOf: (jobUid: string) => string;
  readonly #trained = new Map<string, ReadonlySet<string>>();

  constructor(streams: TypedStreams, ledger: LedgerReader, runPathOf: (jobUid: string) => string) {
    this.#streams = streams;
    this.#ledger = ledger;
    this.#runPathOf = runPathOf;
  }

  async step(job: string, step: number): Promise<StepRecord | undefined> {
    return (await this.#ledger.steps.get(`${job}.step.${step}`))?.value;
  }

  /** @param batchGroups  groups a batch: it tells the last one that may hold the episode */
  async episode(id: string, batchGroups = 0): Promise<{ episode: Episode; trainedInStep?: number }> {
    const { job, group, sample } = parseEpisodeId(id);
    const subject = episodeSubject(job, group, sample);
    const message = await this.#streams.getLast(episodeStream(job), EpisodeSchema, subject);
    if (!message) throw new WhetstoneError("NOT_FOUND", `there is no sealed episode "${id}"`);
    const trainedInStep = await this.#trainedIn(job, id, Number(group.slice(1)), batchGroups);
    return { episode: await message.body(), ...(trainedInStep !== undefined && { trainedInStep }) };
  }

  /** Past summaries, then new ones while `follow` is set. */
  async *summaries(
    request: StreamEpisodesRequest,
    signal: AbortSignal,
  ): AsyncGenerator<{ summary: EpisodeSummary; sequence: bigint }> {
    const newest = await this.#newestSequence(request.name);
    const kept: { summary: EpisodeSummary; sequence: bigint }[] = [];
    if (newest === 0 && !request.follow) return;
    for await (const item of this.#matching(request, signal, newest)) {
      if (item.kind === "end") {
        yield* request.last > 0 ? kept.reverse() : [];
        if (!request.follow) return;
      } else if (request.last > 0 && item.sequence <= BigInt(newest)) {
        kept.push(item);
        if (kept.length > Math.min(request.last, 10_000)) kept.shift();
      } else yield item;
    }
  }

  async checkpoints(job: Job): Promise<Checkpoint[]> {
    const folder = join(this.#runPathOf(job.uid), "checkpoints");
    const names = await readdir(folder).catch(() => []);
    const whole = names.filter((name) => /^step-\d+$/.test(name)); // Damaged ones were set aside under other names.
    const found = await Promise.all(whole.map((name) => readCheckpoint(join(folder, name))));
    return found.filter((checkpoint) => checkpoint !== undefined).sort((a, b) => b.step - a.step);
  }

  async explain(job: Job, step: number): Promise<{ record?: StepRecord; episodes: EpisodeSummary[] }> {
    const name = job.spec?.name ?? "";
    const manifest = (await this.#ledger.batches.get(`${name}.batch.${step}`))?.value;
    if (!manifest) throw new WhetstoneError("NOT_FOUND", `job "${name}" has no batch of step ${step} yet`);
    const record = await this.step(name, step);
    const episodes: EpisodeSummary[] = [];
    for (let start = 0; start < manifest.entries.length; start += READ_AT_ONCE) {
      const summaries = manifest.entries
        .slice(start, start + READ_AT_ONCE)
        .map(({ sequence }) => this.#summary(name, sequence));
      for (const summary of await Promise.all(summaries)) if (summary) episodes.push(summary);
    }
    return { ...(record && { record }), episodes };
  }

  async #summary(job: string, sequence: bigint): Promise<EpisodeSummary | undefined> {
    const message = await this.#streams.getBySequence(episodeStream(job), EpisodeSchema, Number(sequence));
    return message && summaryOf(message.headers);
  }

  async *#matching(request: StreamEpisodesRequest, signal: AbortSignal, newest: number) {
    let sequence = 0;
    if (newest === 0) yield { kind: "end" as const };
    const options = { headersOnly: true, prefetch: 1024, signal };
    for await (const message of this.#streams.readFrom(episodeStream(request.name), EpisodeSchema, options)) {
      sequence = message.sequence;
      const summary = summaryOf(message.headers);
      if (summary && matches(request, summary)) yield { kind: "item" as const, summary, sequence: BigInt(sequence) };
      if (sequence === newest) yield { kind: "end" as const };
    }
  }

  /** Sequence of the newest sealed episode; 0 when there is none. */
  async #newestSequence(job: string): Promise<number> {
    const newest = await this.#streams
      .getLast(episodeStream(job), EpisodeSchema, `ws.${job}.episode.>`)
      .catch(() => undefined);
    return newest?.sequence ?? 0;
  }

  /** @param group  NaN where no batch can hold the episode, as of validation. */
  async #trainedIn(job: string, id: string, group: number, batchGroups: number): Promise<number | undefined> {
    const last = Math.floor(group / batchGroups);
    if (!Number.isSafeInteger(last)) return undefined;
    const step = await this.#batchOf(job, group, last);
    return step !== undefined && (await this.#trainedIds(job, step)).has(id) ? step : undefined;
  }

  /**
   * Groups are numbered as they are dispatched, and those that replace others come between: batch k begins at group k times
   * batch_groups or later. A replacement comes after the groups of at most `MAX_POLICY_LAG` later batches.
   */
  async #batchOf(job: string, group: number, last: number): Promise<number | undefined> {
    let [first, end] = [0, last + 1];
    while (end - first > 1) {
      const middle = Math.floor((first + end) / 2);
      const [begin = Infinity] = await this.#groupsOf(job, middle);
      [first, end] = begin <= group ? [middle, end] : [first, middle];
    }
    for (let step = first; step >= Math.max(0, first - MAX_POLICY_LAG); step--)
      if ((await this.#groupsOf(job, step)).includes(group)) return step;
    return undefined;
  }

  async #groupsOf(job: string, step: number): Promise<number[]> {
    const record = (await this.#ledger.dispatches.get(`${job}.dispatch.${step}`))?.value;
    return record ? dispatchedGroups(record) : [];
  }

  /** The books of a step that is done never change, so the newest ones are kept: whoever asks for one episode asks for its neighbours. */
  async #trainedIds(job: string, step: number): Promise<ReadonlySet<string>> {
    const key = `${job}.batch.${step}`;
    const known = this.#trained.get(key);
    if (known) return known;
    const manifest = (await this.#ledger.batches.get(key))?.value;
    const record = await this.step(job, step);
    const ids = new Set(manifest?.entries.map(({ episodeId }) => episodeId));
    for (const { episodeId } of record?.dropped ?? []) ids.delete(episodeId);
    if (manifest && record) this.#trained.set(key, ids);
    const [oldest] = this.#trained.keys();
    if (this.#trained.size > MANIFESTS_KEPT && oldest !== undefined) this.#trained.delete(oldest);
    return ids;
  }
}

function matches(request: StreamEpisodesRequest, summary: EpisodeSummary): boolean {
  if (request.purpose !== Purpose.UNSPECIFIED && summary.purpose !== request.purpose) return false;
  return request.group === "" || parseEpisodeId(summary.episodeId).group === request.group;
}

interface CheckpointState {
  step: number;
  policyVersion: number;
  weights: { path: string };
}

/** Undefined: not complete, its state.json is written last. */
async function readCheckpoint(path: string): Promise<Checkpoint | undefined> {
  const file = join(path, "state.json");
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const state = JSON.parse(text) as CheckpointState;
  const createdAt = timestampFromDate((await stat(file)).mtime);
  return create(CheckpointSchema, {
    step: state.step,
    policyVersion: BigInt(state.policyVersion),
    path,
    modelPath: state.weights.path,
    createdAt,
  });
}
