// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Objm } from "@nats-io/obj";
import { sleep, WhetstoneError } from "@whetstone/core";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import { startNats, type TestNats, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  deleteJobStreams,
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeSubject,
  type JobStreamLimits,
  type Nats,
  openStreams,
  type PoisonMessage,
  type PullOptions,
  PullWindow,
  type Task,
  taskStream,
  taskSubject,
  type TypedStreams,
} from "./index.ts";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { CLAIM_HEADER } from "./claims/claim.ts";
import { CLAIMS_BUCKET } from "./topology.ts";

let nats: TestNats;
let nc: Nats;
let streams: TypedStreams;
let jobs = 0;

beforeAll(async () => {
  nats = await startNats();
  nc = await nats.connect();
  await ensurePlatform(nc);
  streams = await openStreams(nc);
});

afterAll(async () => {
  await nc[Symbol.asyncDispose]();
  await nats[Symbol.asyncDispose]();
});

async function newJob(limits: JobStreamLimits = {}): Promise<string> {
  const job = `job-${(jobs += 1)}`;
  await ensureJobStreams(nc, job, limits);
  return job;
}

async function code(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(WhetstoneError);
  return (error as WhetstoneError).code;
}

const publishTask = (job: string, id: string, over: TypedStreams = streams) =>
  over.publish(taskSubject(job), RolloutTaskSchema, { episodeId: id, job }, { msgId: id });

const publishEpisode = (job: string, sample: number, group = "g0") =>
  streams.publish(episodeSubject(job, group, sample), EpisodeSchema, { id: `${job}/${group}/s${sample}` });

function pull(job: string, signal: AbortSignal, extra: Partial<PullOptions<typeof RolloutTaskSchema>> = {}) {
  const options = { stream: taskStream(job), durable: "play", schema: RolloutTaskSchema, maxInFlight: 8, signal };
  return streams.pullTasks({ ...options, ...extra });
}

/** Takes tasks until `count` have come, leaving them unsettled. */
async function take(tasks: AsyncIterable<Task<RolloutTask>>, count: number): Promise<Task<RolloutTask>[]> {
  const taken: Task<RolloutTask>[] = [];
  const iterator = tasks[Symbol.asyncIterator]();
  while (taken.length < count) taken.push((await iterator.next()).value as Task<RolloutTask>);
  return taken;
}

async function stored(stream: string): Promise<number> {
  return (await (await jetstreamManager(nc)).streams.info(stream)).state.messages;
}

describe("publish", () => {
  it("reports a repeated id as duplicate, with the first one's sequence (P1)", async () => {
    const job = await newJob();
    const first = await publishTask(job, "a");
    expect(first).toEqual({ sequence: 1, duplicate: false });
    expect(await publishTask(job, "a")).toEqual({ sequence: 1, duplicate: true });
    expect(await stored(taskStream(job))).toBe(1);
  });

  it("accepts one episode a subject, for ever, whatever its id (I1)", async () => {
    const job = await newJob();
    await publishEpisode(job, 1);
    expect(await publishEpisode(job, 0)).toEqual({ sequence: 2, duplicate: false });
    expect(await publishEpisode(job, 0)).toEqual({ sequence: 2, duplicate: true });
    expect(await stored(episodeStream(job))).toBe(2);
  });

  it("with firstOnSubject refuses a second one on a stream without that limit", async () => {
    const job = await newJob();
    const send = () => streams.publish(taskSubject(job, "p"), RolloutTaskSchema, { job }, { firstOnSubject: true });
    expect((await send()).duplicate).toBe(false);
    expect((await send()).duplicate).toBe(true);
  });

  it("says that a full stream is full: RESOURCE_EXHAUSTED, retry later (P2)", async () => {
    const job = await newJob({ maxTasks: 2 });
    await publishTask(job, "a");
    await publishTask(job, "b");
    const refused = await publishTask(job, "c").catch((error: unknown) => error as WhetstoneError);
    expect(refused).toMatchObject({ code: "RESOURCE_EXHAUSTED", retry: "later" });
    expect(await publishTask(job, "a")).toMatchObject({ duplicate: true });
  });

  it("fails in time when no stream takes the subject", async () => {
    const send = streams.publish("nobody.home", RolloutTaskSchema, {}, { msgId: "x", timeoutMs: 300 });
    expect(["UNAVAILABLE", "DEADLINE_EXCEEDED"]).toContain(await code(send));
  });
});

describe("claim checks", () => {
  const big = (job: string) => ({ id: `${job}/g0/s0`, job, failure: { message: "x".repeat(700_000) } });

  it("carries a large body by the object store, both ways, and cleans up with the job", async () => {
    const job = await newJob();
    const { sequence } = await streams.publish(episodeSubject(job, "g0", 0), EpisodeSchema, big(job));
    const found = await streams.getBySequence(episodeStream(job), EpisodeSchema, sequence);
    expect(found?.headers[CLAIM_HEADER]).toContain(`"size":`);
    expect((await found?.body())?.failure?.message).toHaveLength(700_000);
    await deleteJobStreams(nc, job);
    const store = await new Objm(nc).open(CLAIMS_BUCKET);
    expect((await store.list()).filter(({ name }) => name.startsWith(`${job}/`))).toEqual([]);
  });

  it("refuses a body that is not the one published", async () => {
    const job = await newJob();
    await streams.publish(episodeSubject(job, "g0", 0), EpisodeSchema, big(job));
    const found = await streams.getLast(episodeStream(job), EpisodeSchema, episodeSubject(job, "g0", 0));
    const { name } = JSON.parse(found?.headers[CLAIM_HEADER] ?? "{}") as { name: string };
    const store = await new Objm(nc).open(CLAIMS_BUCKET);
    await store.putBlob({ name }, new TextEncoder().encode("another body"));
    expect(await code(found?.body() ?? Promise.resolve())).toBe("DATA_LOSS");
    await store.delete(name);
    expect(await code(found?.body() ?? Promise.resolve())).toBe("DATA_LOSS");
  });
});

describe("pullTasks", () => {
  it("delivers each task once to sharing replicas and empties the queue", async () => {
    const job = await newJob();
    for (let i = 0; i < 60; i += 1) await publishTask(job, `t${i}`);
    const stop = new AbortController();
    const seen: string[] = [];
    const replica = async (): Promise<void> => {
      for await (const task of pull(job, stop.signal)) {
        seen.push(task.message.episodeId);
        await task.ack();
      }
    };
    const replicas = [replica(), replica()].map((r) => r.catch(() => undefined));
    await waitFor(() => seen.length === 60);
    await waitFor(async () => (await stored(taskStream(job))) === 0);
    stop.abort();
    await Promise.all(replicas);
    expect(new Set(seen).size).toBe(60);
  });

  it("never hands out more than maxInFlight, and leaves the rest to others (W1)", async () => {
    const job = await newJob();
    for (let i = 0; i < 10; i += 1) await publishTask(job, `t${i}`);
    const stop = new AbortController();
    const iterator = pull(job, stop.signal, { maxInFlight: 3 })[Symbol.asyncIterator]();
    const held = [await iterator.next(), await iterator.next(), await iterator.next()];
    const fourth = iterator.next();
    expect(await Promise.race([fourth, sleep(300).then(() => "waiting")])).toBe("waiting");
    const others = new AbortController();
    const other = await take(pull(job, others.signal, { maxInFlight: 7 }), 7);
    others.abort();
    other[0]?.nak();
    await (held[0]?.value as Task<RolloutTask>).ack();
    expect((await fourth).done).toBe(false);
    stop.abort();
  });

  it("follows a window that grows and shrinks", async () => {
    const job = await newJob();
    for (let i = 0; i < 10; i += 1) await publishTask(job, `t${i}`);
    const stop = new AbortController();
    const window = new PullWindow(1);
    const iterator = pull(job, stop.signal, { maxInFlight: window })[Symbol.asyncIterator]();
    const first = (await iterator.next()).value as Task<RolloutTask>;
    const second = iterator.next();
    expect(await Promise.race([second, sleep(200).then(() => "waiting")])).toBe("waiting");
    window.resize(3);
    await second;
    await iterator.next();
    window.resize(2);
    const fourth = iterator.next();
    await first.ack();
    expect(await Promise.race([fourth, sleep(200).then(() => "waiting")])).toBe("waiting");
    window.resize(3);
    expect((await fourth).done).toBe(false);
    stop.abort();
  });

  it("hands back at once, when stopped, what it had fetched and not handed out", async () => {
    const job = await newJob();
    for (let i = 0; i < 5; i += 1) await publishTask(job, `t${i}`);
    const first = new AbortController();
    await take(pull(job, first.signal, { maxInFlight: 5 }), 1);
    const manager = await jetstreamManager(nc);
    await waitFor(async () => (await manager.consumers.info(taskStream(job), "play")).num_ack_pending === 5);
    first.abort();
    const second = new AbortController();
    const startedAt = performance.now();
    expect(await take(pull(job, second.signal), 4)).toHaveLength(4);
    expect(performance.now() - startedAt).toBeLessThan(12_000); // The ack deadline is 15 s.
    second.abort();
  });

  it("delivers again what is not acknowledged, with the attempt counted, and not what is kept alive (W2)", async () => {
    const job = await newJob();
    await publishTask(job, "a");
    const stop = new AbortController();
    const lost = new AbortController();
    const [first] = await take(pull(job, lost.signal, { ackWaitMs: 700 }), 1);
    lost.abort();
    expect(first?.attempt).toBe(1);
    const [second] = await take(pull(job, stop.signal, { ackWaitMs: 700, keepAliveMs: 200 }), 1);
    expect([second?.message.episodeId, second?.attempt]).toEqual(["a", 2]);
    const third = take(pull(job, stop.signal, { ackWaitMs: 700 }), 1);
    expect(await Promise.race([third, sleep(2_000).then(() => "kept")])).toBe("kept");
    await second?.ack();
    third.catch(() => undefined);
    stop.abort();
  });

  it("hands back with a delay and gives up for good", async () => {
    const job = await newJob();
    await publishTask(job, "a");
    const stop = new AbortController();
    const iterator = pull(job, stop.signal)[Symbol.asyncIterator]();
    const startedAt = performance.now();
    ((await iterator.next()).value as Task<RolloutTask>).nak(400);
    const again = (await iterator.next()).value as Task<RolloutTask>;
    expect(performance.now() - startedAt).toBeGreaterThan(350);
    expect(again.attempt).toBe(2);
    again.term();
    await waitFor(async () => (await stored(taskStream(job))) === 0);
    stop.abort();
  });

  it("goes on after its consumer was deleted (W3)", async () => {
    const job = await newJob();
    const stop = new AbortController();
    const iterator = pull(job, stop.signal)[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await waitFor(async () => await (await jetstreamManager(nc)).consumers.info(taskStream(job), "play"));
    await (await jetstreamManager(nc)).consumers.delete(taskStream(job), "play");
    await publishTask(job, "late");
    expect(((await waiting).value as Task<RolloutTask>).message.episodeId).toBe("late");
    stop.abort();
  });

  it("sets a task aside that cannot be read, and goes on (W4)", async () => {
    const job = await newJob();
    const stop = new AbortController();
    const poison: PoisonMessage[] = [];
    await jetstream(nc).publish(taskSubject(job), new Uint8Array([0xff, 0xff, 0xff]));
    await publishTask(job, "good");
    const tasks = await take(pull(job, stop.signal, { onPoison: (p) => void poison.push(p), maxInFlight: 1 }), 1);
    expect(tasks[0]?.message.episodeId).toBe("good");
    expect(poison.map(({ sequence, error }) => [sequence, error.code])).toEqual([[1, "CONTRACT_VIOLATION"]]);
    await tasks[0]?.ack();
    await waitFor(async () => (await stored(taskStream(job))) === 0);
    stop.abort();
  });

  it("ends with the signal's reason at once, and says when the stream is missing", async () => {
    const job = await newJob();
    const stop = new AbortController();
    const waiting = take(pull(job, stop.signal), 1);
    await sleep(100);
    stop.abort(new WhetstoneError("CANCELLED", "over"));
    expect(await code(waiting)).toBe("CANCELLED");
    expect(await code(take(pull("no-such-job", new AbortController().signal), 1))).toBe("NOT_FOUND");
  });
});

describe("readFrom", () => {
  it("tails in order from a position, headers first, bodies on demand", async () => {
    const job = await newJob();
    for (let i = 0; i < 5; i += 1) await publishEpisode(job, i);
    const stop = new AbortController();
    const read = { startSequence: 3, headersOnly: true, signal: stop.signal };
    const got: [number, string][] = [];
    for await (const message of streams.readFrom(episodeStream(job), EpisodeSchema, read)) {
      got.push([message.sequence, (await message.body()).id]);
      if (got.length === 3) await publishEpisode(job, 5);
      if (got.length === 4) break;
    }
    expect(got.map(([sequence]) => sequence)).toEqual([3, 4, 5, 6]);
    expect(got.map(([, id]) => id)).toEqual([2, 3, 4, 5].map((i) => `${job}/g0/s${i}`));
  });

  it("filters by subject and finds single messages", async () => {
    const job = await newJob();
    await publishEpisode(job, 0, "g0");
    await publishEpisode(job, 0, "g1");
    const filterSubject = episodeSubject(job, "g1", 0);
    for await (const message of streams.readFrom(episodeStream(job), EpisodeSchema, { filterSubject })) {
      expect(message.sequence).toBe(2);
      break;
    }
    const last = await streams.getLast(episodeStream(job), EpisodeSchema, filterSubject);
    expect(last?.sequence).toBe(2);
    expect(await streams.getBySequence(episodeStream(job), EpisodeSchema, 99)).toBeUndefined();
    expect(await streams.getLast(episodeStream(job), EpisodeSchema, episodeSubject(job, "g9", 9))).toBeUndefined();
  });

  it("ends at the signal and says when the stream is missing or goes away", async () => {
    const job = await newJob();
    const next = (name: string, signal?: AbortSignal) =>
      streams.readFrom(name, EpisodeSchema, { signal })[Symbol.asyncIterator]().next();
    expect(await code(next("WS_EPISODE_nope"))).toBe("NOT_FOUND");
    const stop = new AbortController();
    const cancelled = code(next(episodeStream(job), stop.signal));
    const orphaned = code(next(episodeStream(job)));
    await sleep(200);
    stop.abort(new WhetstoneError("CANCELLED", "over"));
    expect(await cancelled).toBe("CANCELLED");
    await deleteJobStreams(nc, job);
    expect(await orphaned).toBe("NOT_FOUND");
  });
});

it("keeps the size of a task on the wire stable (pin)", () => {
  expect(toBinary(RolloutTaskSchema, create(RolloutTaskSchema, { episodeId: "a/g0/s0" }))).toHaveLength(9);
});
