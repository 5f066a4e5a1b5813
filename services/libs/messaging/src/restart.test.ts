// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { EpochRecordSchema, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { startNats, waitFor } from "@whetstone/testkit";
import { expect, it } from "vitest";
import {
  connectNats,
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeSubject,
  type KvChange,
  LEDGER_BUCKET,
  openKv,
  openStreams,
  requireServerVersion,
  taskStream,
  taskSubject,
} from "./index.ts";
import { silentLogger } from "@whetstone/telemetry";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import type { EpochRecord } from "@whetstone/proto/events/v1/events";

const JOB = "fl-1";

it("loses, skips and repeats nothing over server crashes: publish, pull, tail and watch (T1, W2, W3, P1, P3)", async () => {
  await using nats = await startNats();
  await using nc = await nats.connect();
  await ensurePlatform(nc);
  await ensureJobStreams(nc, JOB);
  const streams = await openStreams(nc);
  const kv = await openKv(nc, LEDGER_BUCKET, EpochRecordSchema);
  const stop = new AbortController();
  const { signal } = stop;
  const played = new Set<string>();
  const sequences: number[] = [];
  const ids: string[] = [];
  const changes: KvChange<EpochRecord>[] = [];

  const play = async (): Promise<void> => {
    const pull = { stream: taskStream(JOB), durable: "play", schema: RolloutTaskSchema, maxInFlight: 4, signal };
    for await (const { message, ack } of streams.pullTasks({ ...pull, ackWaitMs: 2_000, maxDeliver: 50 })) {
      const [, group = "", sample = ""] = message.episodeId.split("/");
      const subject = episodeSubject(JOB, group, Number(sample.slice(1)));
      await streams.publish(subject, EpisodeSchema, { id: message.episodeId }, { msgId: message.episodeId });
      played.add(message.episodeId);
      await ack().catch(() => undefined); // It comes back, and the episode is a duplicate then.
    }
  };
  const read = async (): Promise<void> => {
    for await (const message of streams.readFrom(episodeStream(JOB), EpisodeSchema, { signal })) {
      sequences.push(message.sequence);
      ids.push((await message.body()).id);
    }
  };
  const watch = async (): Promise<void> => {
    for await (const change of kv.watch(JOB, signal)) changes.push(change);
  };
  const workers = [play(), read(), watch()].map((work) => work.catch((error: unknown) => error));

  const total = 60;
  const publish = async (): Promise<void> => {
    for (let i = 0; i < total; i += 1) {
      const id = `${JOB}/g${i}/s0`;
      await streams.publish(taskSubject(JOB), RolloutTaskSchema, { episodeId: id }, { msgId: id });
      await sleep(20);
    }
  };
  const crash = async (): Promise<void> => {
    for (let i = 0; i < 2; i += 1) {
      await sleep(300);
      await nats.restart();
    }
  };
  await Promise.all([publish(), crash()]);
  await waitFor(async () => (await kv.put(`${JOB}.epoch`, { epoch: 7n }, { timeoutMs: 1_000 })) > 0);
  await waitFor(() => ids.length >= total, { timeoutMs: 15_000, what: "all episodes" });
  await waitFor(() => changes.length > 0);
  stop.abort(new WhetstoneError("CANCELLED", "done"));
  await Promise.all(workers);

  expect(new Set(ids)).toEqual(played);
  expect(ids).toHaveLength(total);
  expect(sequences).toEqual(Array.from({ length: total }, (_, i) => i + 1));
  expect(changes.at(-1)).toMatchObject({ kind: "put", key: `${JOB}.epoch`, value: { epoch: 7n } });
});

it("fails clearly at the first connection", async () => {
  const connecting = connectNats({ servers: "nats://127.0.0.1:1", name: "t", logger: silentLogger });
  const error = await connecting.catch((thrown: unknown) => thrown as WhetstoneError);
  expect(error).toMatchObject({ code: "UNAVAILABLE", retry: "safe" });
  expect((error as WhetstoneError).message).toContain("nats://127.0.0.1:1");
});

it("refuses a server that is too old, and says what to do", async () => {
  await using nats = await startNats();
  await using nc = await nats.connect();
  requireServerVersion(nc, "2.12.0");
  expect(() => {
    requireServerVersion(nc, "99.0.0");
  }).toThrow(/NATS server 2\.\d+\.\d+ .*needs 99\.0\.0 or newer.*Upgrade/);
});

it("closes in time when the server is away", async () => {
  await using nats = await startNats();
  const nc = await nats.connect();
  await nats.kill();
  const startedAt = performance.now();
  await nc[Symbol.asyncDispose]();
  expect(performance.now() - startedAt).toBeLessThan(15_000);
});
