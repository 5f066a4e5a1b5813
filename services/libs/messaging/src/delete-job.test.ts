// SPDX-License-Identifier: Apache-2.0
import { jetstreamManager } from "@nats-io/jetstream";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  deleteJobStreams,
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  eventSubject,
  type Nats,
  taskStream,
} from "./index.ts";
import { ADVISORY_STREAM, EVENT_STREAM } from "./topology.ts";

let nats: TestNats;
let nc: Nats;
beforeAll(async () => {
  nats = await startNats();
  nc = await nats.connect();
});
afterAll(async () => {
  await nc[Symbol.asyncDispose]();
  await nats[Symbol.asyncDispose]();
});

/** Messages of each subject, in the streams that all jobs share. */
async function left(): Promise<Record<string, number>> {
  const manager = await jetstreamManager(nc);
  const streams = [EVENT_STREAM, ADVISORY_STREAM];
  const states = await Promise.all(streams.map((name) => manager.streams.info(name, { subjects_filter: ">" })));
  return Object.assign({}, ...states.map(({ state }) => state.subjects ?? {})) as Record<string, number>;
}

const subjectsOf = (job: string): string[] => [
  eventSubject(job, "phase"),
  eventSubject(job, "step"),
  `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${taskStream(job)}.pool`,
  `$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.${taskStream(job)}.pool`,
];

it("deletes a job's messages in the shared streams, too, and no other job's", async () => {
  await ensurePlatform(nc);
  const jobs = ["mine", "mine-2", "other"];
  for (const job of jobs) {
    await ensureJobStreams(nc, job);
    for (const subject of subjectsOf(job)) nc.publish(subject, "x");
  }
  await nc.flush();
  await expect.poll(async () => Object.keys(await left()).length).toBe(12);

  await deleteJobStreams(nc, "mine");
  const rest = await left();
  expect(Object.keys(rest).toSorted()).toEqual(["mine-2", "other"].flatMap(subjectsOf).toSorted());
  const names = (await (await jetstreamManager(nc)).streams.list().next()).map(({ config }) => config.name);
  expect(names).not.toContain(episodeStream("mine"));
  expect(names).toContain(episodeStream("mine-2"));
  await deleteJobStreams(nc, "mine");
});

it("needs none of the shared streams", async () => {
  const manager = await jetstreamManager(nc);
  for (const name of [EVENT_STREAM, ADVISORY_STREAM]) await manager.streams.delete(name);
  await ensureJobStreams(nc, "alone");
  await deleteJobStreams(nc, "alone");
  await expect(manager.streams.info(taskStream("alone"))).rejects.toThrow();
});
