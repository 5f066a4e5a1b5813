// SPDX-License-Identifier: Apache-2.0
// A bucket ws-jobs as the last version without desired_state wrote it, byte by byte, each record by that version's own code:
// calls of its JobService, and orders of its reconciler.
import { readFileSync } from "node:fs";
import { fromBinary } from "@bufbuild/protobuf";
import { Kvm } from "@nats-io/kv";
import { type DesiredState, type Job, JobSchema, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensurePlatform, type Nats, openJobs, type TypedKv } from "../index.ts";
import { DESIRED } from "./desired-state.ts";
import { type JobState, jobState } from "./job-state.ts";

const file = new URL("../../test-support/former-jobs.json", import.meta.url);
const former = JSON.parse(readFileSync(file, "utf8")) as Record<string, string>;

const { run, suspendByUser, suspendByController: waits, cancelByUser, cancelByDeletion, failByController } = DESIRED;
const EXPECTED: Record<string, [DesiredState, JobState["kind"]]> = {
  submitted: [run(), "queued"],
  running: [run(), "running"],
  succeeded: [run(), "ended"],
  suspending: [suspendByUser(), "suspending"],
  suspended: [suspendByUser(), "suspended"],
  resumed: [run(), "resuming"],
  cancelled: [cancelByUser(), "ending"],
  "cancelled-suspended": [cancelByUser(), "ending"],
  object: [run(), "queued"],
  "object-suspended": [suspendByUser(), "suspended"],
  "waits-for-quota": [waits("WaitingForQuota"), "suspended"],
  "waits-for-engines": [waits("WaitingForEngines"), "suspended"],
  "waits-for-trainer": [waits("WaitingForTrainer"), "suspended"],
  "admitted-again": [run(), "queued"],
  evicted: [waits("Evicted"), "suspending"],
  updating: [waits("Updating"), "suspending"],
  "held-suspended": [suspendByUser(), "suspended"],
  "held-cancelled": [cancelByUser(), "ending"],
  "object-cancelled": [cancelByUser(), "ending"],
  "too-long": [failByController("ActiveDeadlineExceeded", "It did not end within 50 s of its start."), "ending"],
  "too-late": [failByController("PreRunningDeadlineExceeded", "It did not start within 100 s."), "ending"],
  deleted: [cancelByDeletion(), "ending"],
  "cancelled-deleted": [cancelByDeletion(), "ending"],
};

let server: TestNats;
let nats: Nats;
let jobs: TypedKv<typeof JobSchema>;
const raw = async (name: string): Promise<Uint8Array> => {
  const entry = await (await new Kvm(nats).open("ws-jobs")).get(name);
  return entry?.value ?? new Uint8Array();
};

beforeAll(async () => {
  server = await startNats();
  nats = await server.connect();
  await ensurePlatform(nats);
  const bucket = await new Kvm(nats).open("ws-jobs");
  for (const [name, record] of Object.entries(former)) await bucket.put(name, Buffer.from(record, "base64"));
  jobs = await openJobs(nats);
});
afterAll(async () => {
  await nats[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

/** What of a record no version but the former one says. */
const formerFields = ({ wish, holdReason, endReason, endMessage }: Job) => [wish, holdReason, endReason, endMessage];

describe("a record of a former version", () => {
  it("is each that the former version had", () => {
    expect(Object.keys(former)).toEqual(Object.keys(EXPECTED));
    const decoded = Object.values(former).map((bytes) => fromBinary(JobSchema, Buffer.from(bytes, "base64")));
    for (const job of decoded) expect([job.desiredState, job.wish]).not.toEqual([undefined, JobWish.UNSPECIFIED]);
  });

  it.each(Object.entries(EXPECTED))("%s is read as one of today", async (name, [desired, kind]) => {
    const job = (await jobs.get(name))?.value as Job;
    expect(job.desiredState).toEqual(desired);
    expect(jobState(job).kind).toBe(kind);
    expect(formerFields(job)).toEqual([JobWish.UNSPECIFIED, "", "", ""]);
    expect(job).toMatchObject({ spec: { name, loop: { steps: 3 } }, status: {} });
  });

  it("is watched as one of today", async () => {
    const stop = new AbortController();
    const seen = new Map<string, Job>();
    for await (const change of jobs.watch("", stop.signal)) {
      if (change.kind === "put") seen.set(change.key, change.value);
      if (seen.size === Object.keys(former).length) break;
    }
    for (const [name, [desired]] of Object.entries(EXPECTED)) expect(seen.get(name)?.desiredState).toEqual(desired);
    for (const job of seen.values()) expect(formerFields(job)).toEqual([JobWish.UNSPECIFIED, "", "", ""]);
  });

  it("is one of today once it is written again", async () => {
    const record = await jobs.get("evicted");
    if (!record) throw new Error("it is gone");
    await jobs.update("evicted", record.value, record.revision);
    const stored = fromBinary(JobSchema, await raw("evicted"));
    expect(stored.desiredState).toEqual(waits("Evicted"));
    expect(formerFields(stored)).toEqual([JobWish.UNSPECIFIED, "", "", ""]);
  });

  it("that a former version writes on top of today's changes nothing of it", async () => {
    const record = await jobs.get("submitted");
    if (!record) throw new Error("it is gone");
    await jobs.update("submitted", { ...record.value, wish: JobWish.SUSPEND }, record.revision);
    expect((await jobs.get("submitted"))?.value).toMatchObject({ desiredState: run(), wish: JobWish.UNSPECIFIED });
  });
});
