// SPDX-License-Identifier: Apache-2.0
/**
 * Reads a job's books where they lie: ledger, streams, checkpoint. No service is asked.
 *
 * The order makes an audit of a running job sound: whatever is read later can only hold more. Step records before the
 * manifests they name, manifests before the dispatch records that cover them, tasks before the episodes they become,
 * the checkpoint last.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { fromBinary } from "@bufbuild/protobuf";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { JetStreamManager, MsgRequest } from "@nats-io/jetstream";
import { jetstreamManager } from "@nats-io/jetstream";
import type { KV } from "@nats-io/kv";
import { Kvm } from "@nats-io/kv";
import type { NatsConnection } from "@nats-io/nats-core";
import { withDefaults } from "@whetstone/contract/defaults";
import { type ErrorCode, WhetstoneError } from "@whetstone/core";
import type { StoredMessage, TypedStreams } from "@whetstone/messaging";
import { JOBS_BUCKET, LEDGER_BUCKET, episodeStream, openStreams, sha256Hex, taskStream } from "@whetstone/messaging";
import { BatchManifestSchema, DispatchRecordSchema, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase, JobSchema, LoopSchema, StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Episode } from "@whetstone/proto/types/v1/types";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";

import type { AuditResult, CheckpointFacts, JobFacts, SealedEpisode } from "./audit-facts.ts";
import { Auditor } from "./audit.ts";
import { newestCheckpoint, readState } from "./checkpoint-file.ts";

export interface AuditDeps {
  readonly connection: NatsConnection;
  /** Those of a process that has an object store. Default: of the connection, for bodies that are in NATS. */
  readonly streams?: TypedStreams;
  /** `<data>/runs`. */
  readonly runsFolder: string;
  /** `state.json` of the newest checkpoint that is not there but in an object store; undefined: there is none. */
  readonly storedState?: (job: Job) => Promise<Uint8Array | undefined>;
  readonly signal: AbortSignal;
  /** Between two looks for what seems lost; default 2,000. */
  readonly lookAgainMs?: number;
}

/** A dispatch record is written before its tasks: what is nowhere is looked for again so often before it counts as lost. */
const LOOKS = 4;
const LOOK_AGAIN_MS = 2_000;

interface Books {
  readonly job: string;
  readonly ledger: KV;
  readonly streams: TypedStreams;
  readonly manager: JetStreamManager;
  readonly signal: AbortSignal;
}

/** Recounts the books of one job. Throws NOT_FOUND when there is no such job. */
export async function auditJob(name: string, deps: AuditDeps): Promise<AuditResult> {
  const buckets = new Kvm(deps.connection);
  const job = await readJob(await buckets.open(JOBS_BUCKET), name);
  const books: Books = {
    job: name,
    ledger: await buckets.open(LEDGER_BUCKET),
    streams: deps.streams ?? (await openStreams(deps.connection)),
    manager: await jetstreamManager(deps.connection, { checkAPI: false }),
    signal: deps.signal,
  };
  const auditor = new Auditor(factsOf(job));
  for await (const { value } of records(books, "step", StepRecordSchema)) auditor.addStepRecord(value);
  for await (const { value, bytes } of records(books, "batch", BatchManifestSchema)) {
    auditor.addBatch({ manifest: value, digest: sha256Hex(bytes) });
  }
  for await (const { value } of records(books, "dispatch", DispatchRecordSchema)) auditor.addDispatch(value);
  await readStreams(books, auditor, deps.lookAgainMs ?? LOOK_AGAIN_MS);
  const checkpoint = newestCheckpoint(join(deps.runsFolder, job.uid), job.uid) ?? (await stored(job, deps));
  return auditor.finish(await withoutNewer(books, auditor, checkpoint));
}

async function stored(job: Job, { storedState }: AuditDeps): Promise<CheckpointFacts | undefined> {
  const bytes = await storedState?.(job);
  return bytes && readState(Buffer.from(bytes).toString("utf8"), `the newest checkpoint in the object store`, job.uid);
}

async function readJob(bucket: KV, name: string): Promise<Job> {
  const entry = await bucket.get(name);
  if (entry?.operation === "PUT") return fromBinary(JobSchema, entry.value);
  throw new WhetstoneError("NOT_FOUND", `there is no job ${name}`, {
    retry: "never",
    context: { violations: [{ path: name, reason: "no such job; `whet jobs ls` lists them" }] },
  });
}

function factsOf(job: Job): JobFacts {
  const phase = job.status?.phase;
  const ended = phase === JobPhase.CANCELLED || phase === JobPhase.FAILED;
  return {
    name: job.spec?.name ?? "",
    phase: ended
      ? "ended"
      : phase === JobPhase.SUCCEEDED
        ? "succeeded"
        : phase === JobPhase.SUSPENDED
          ? "suspended"
          : "running",
    checkpointEvery: withDefaults(LoopSchema, job.spec?.loop).checkpointEvery,
  };
}

/** The records of one kind, in order of their step, one at a time. */
async function* records<D extends DescMessage>(
  { ledger, job, signal }: Books,
  kind: "step" | "batch" | "dispatch",
  schema: D,
): AsyncGenerator<{ value: MessageShape<D>; bytes: Uint8Array }> {
  const keys: string[] = [];
  for await (const key of await ledger.keys(`${job}.${kind}.*`)) keys.push(key);
  const stepOf = (key: string): number => Number(key.slice(key.lastIndexOf(".") + 1));
  for (const key of keys.sort((a, b) => stepOf(a) - stepOf(b))) {
    signal.throwIfAborted();
    const entry = await ledger.get(key);
    if (entry?.operation === "PUT") yield { value: fromBinary(schema, entry.value), bytes: entry.value };
  }
}

async function readStreams(books: Books, auditor: Auditor, lookAgainMs: number): Promise<void> {
  let next = 1;
  for (let look = 1; ; look += 1) {
    for await (const id of taskIds(books)) auditor.addTask(id);
    next = await readEpisodes(books, auditor, next);
    if (look === LOOKS || auditor.missing().length === 0) return;
    await delay(lookAgainMs, undefined, { signal: books.signal });
  }
}

/** Ids in the work queue, read without consuming. A finished job's stream may be gone. */
async function* taskIds({ manager, streams, job, signal }: Books): AsyncGenerator<string> {
  const stream = taskStream(job);
  let next = 1;
  for (;;) {
    signal.throwIfAborted();
    // The client's type for this call lacks the server's "next message at or after".
    const query = { seq: next, next_by_subj: ">" } as unknown as MsgRequest;
    const message = await found(manager.streams.getMessage(stream, query));
    if (!message) return;
    next = message.seq + 1;
    const task = await found(streams.getBySequence(stream, RolloutTaskSchema, message.seq, { signal }));
    if (task) yield (await task.body(signal)).episodeId;
  }
}

/** Every sealed episode from a sequence on, up to the newest there is now. Answers the sequence to go on from. */
async function readEpisodes({ streams, job, signal }: Books, auditor: Auditor, from: number): Promise<number> {
  const stream = episodeStream(job);
  const newest = await found(streams.getLast(stream, EpisodeSchema, ">", { signal }));
  if (!newest || newest.sequence < from) return from;
  for await (const message of streams.readFrom(stream, EpisodeSchema, { startSequence: from, signal })) {
    auditor.addSealed(await sealed(message, signal));
    if (message.sequence >= newest.sequence) break;
  }
  return newest.sequence + 1;
}

/** A body may be there all the same. */
const UNKNOWN: readonly ErrorCode[] = ["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "FAILED_PRECONDITION"];

/**
 * The id is what the message was published under; a body that cannot be had is a finding, not a failure.
 * @throws where nobody can tell: whoever has it is away, or this process cannot ask
 */
async function sealed(message: StoredMessage<Episode>, signal: AbortSignal): Promise<SealedEpisode> {
  const base = {
    id: message.msgId ?? `${message.stream} message ${message.sequence}`,
    sequence: BigInt(message.sequence),
  };
  try {
    const bytes = await message.bytes(signal);
    const digest = sha256Hex(bytes);
    const episode = decodeEpisode(bytes);
    return { ...base, digest, ...(episode ? { episode } : {}) };
  } catch (error) {
    if (UNKNOWN.includes(WhetstoneError.from(error).code)) throw error;
    return { ...base, digest: "" };
  }
}

function decodeEpisode(bytes: Uint8Array): Episode | undefined {
  try {
    return fromBinary(EpisodeSchema, bytes);
  } catch {
    return undefined;
  }
}

/** A running job may consume a batch while we count; if the ledger has it, it belongs to the next audit. */
async function withoutNewer(
  books: Books,
  auditor: Auditor,
  checkpoint: CheckpointFacts | undefined,
): Promise<CheckpointFacts | undefined> {
  if (!checkpoint) return undefined;
  const kept: CheckpointFacts["consumed"][number][] = [];
  for (const consumed of checkpoint.consumed) {
    const entry = auditor.hasBatch(consumed.step)
      ? undefined
      : await books.ledger.get(`${books.job}.batch.${consumed.step}`);
    if (entry?.operation !== "PUT" || sha256Hex(entry.value) !== consumed.batchDigest) kept.push(consumed);
  }
  return { ...checkpoint, consumed: kept };
}

/** Undefined where the stream or the message does not exist. */
async function found<T>(answer: Promise<T | null | undefined>): Promise<T | undefined> {
  try {
    return (await answer) ?? undefined;
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    const text = error instanceof Error ? error.message : "";
    if (code === 10059 || code === 10037 || code === "NOT_FOUND" || /not found|no message found/i.test(text))
      return undefined;
    throw error;
  }
}
