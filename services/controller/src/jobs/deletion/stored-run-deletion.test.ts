// SPDX-License-Identifier: Apache-2.0
// A job whose run is in an object store: what the store holds goes first, and a store that fails leaves the rest to be found.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromJson } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { ensureJobStreams, ensurePlatform, type Nats, openStreams, type TypedStreams } from "@whetstone/messaging";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import {
  CheckpointSchema,
  DeleteJobRequestSchema,
  type Job,
  JobPhase,
  JobSpecSchema,
} from "@whetstone/proto/jobs/v1/jobs";
import { GetStoredRunResponseSchema } from "@whetstone/proto/trainer/v1/trainer";
import { silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { countLedger, KvLedger, readLedger } from "../../loop/batch/kv-ledger.ts";
import { JobStore } from "../job-store.ts";
import { StoredRuns, type StoredRunsDeps } from "../stored-runs.ts";
import { deleteJob, type DeleteJobDeps } from "./delete-job.ts";
import { finishDeletions } from "./finish-deletions.ts";

const AWAY = "the object store fails: s3://bucket/runs/u: connection refused";

let server: TestNats;
let nats: Nats;
let streams: TypedStreams;
let store: JobStore;
let dataPath: string;
let job: Job;
let count = 0;
/** What the trainer was asked to delete, and what it answers. */
const asked: { jobUid: string; url: string }[] = [];
let failure: Error | undefined;

beforeAll(async () => {
  server = await startNats();
  nats = await server.connect();
  await ensurePlatform(nats);
  streams = await openStreams(nats);
  store = await JobStore.open(nats);
  dataPath = mkdtempSync(join(tmpdir(), "whetstone-delete-"));
});
afterAll(async () => {
  await nats[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  rmSync(dataPath, { recursive: true, force: true });
});

beforeEach(async () => {
  asked.length = 0;
  failure = undefined;
  job = await finishedJob({ objectStore: {} }, "s3://bucket/runs/u/weights");
});

async function finishedJob(transport: object, url: string): Promise<Job> {
  const name = `stored-${++count}`;
  const spec = fromJson(JobSpecSchema, { name, weights: { transport } } as never);
  const made = await store.create(spec);
  await ensureJobStreams(nats, name);
  await (await KvLedger.take(nats, name, "test")).savePolicy(create(PolicyRecordSchema, { policyVersion: 1n, url }));
  mkdirSync(join(dataPath, "runs", made.uid), { recursive: true });
  return await store.change(name, (one) => {
    if (one.status) one.status.phase = JobPhase.SUCCEEDED;
  });
}

const checkpointAt = (step: number, path: string) => create(CheckpointSchema, { step, path });

const trainer: StoredRunsDeps["trainers"][number] = {
  getStoredRun: () =>
    failure
      ? Promise.reject(failure)
      : Promise.resolve(
          create(GetStoredRunResponseSchema, {
            objects: 7,
            bytes: 700n,
            checkpoints: [checkpointAt(4, "s3://4"), checkpointAt(2, "s3://2")],
          }),
        ),
  deleteStoredRun: (request) => {
    const { jobUid = "", url = "" } = request;
    asked.push({ jobUid, url });
    return failure
      ? Promise.reject(failure)
      : Promise.resolve({ $typeName: "whetstone.trainer.v1.DeleteStoredRunResponse" });
  },
};

async function deps(): Promise<DeleteJobDeps> {
  const storedRuns = new StoredRuns({ trainers: [trainer], policies: (await readLedger(nats)).policies });
  const artifacts = { collect: () => Promise.resolve({ freed: 0, jobs: [] }) };
  return { nats, streams, store, storedRuns, dataPath, artifacts, atWork: new Set() };
}

const nameOf = ({ spec }: Job): string => spec?.name ?? "";

async function remove(one: Job, dryRun = false) {
  const request = create(DeleteJobRequestSchema, { name: nameOf(one), dryRun });
  return await deleteJob(await deps(), request, AbortSignal.timeout(10_000));
}

it("goes with what the store holds, by the place that its weights had", async () => {
  expect(await remove(job, true)).toMatchObject({ storedObjects: 7, storedBytes: 700n });
  expect(asked).toEqual([]);
  await remove(job);
  expect(asked).toEqual([{ jobUid: job.uid, url: "s3://bucket/runs/u/weights" }]);
  expect(await store.find(nameOf(job))).toBeUndefined();
});

it("asks no store for a job whose weights went another way", async () => {
  const other = await finishedJob({ stream: {} }, "http://trainer:7401/weights/u");
  expect(await remove(other)).toMatchObject({ storedObjects: 0 });
  expect(asked).toEqual([]);
});

it("is said to be incomplete while the store fails, loses nothing that tells of it, and is finished by itself", async () => {
  failure = new WhetstoneError("UNAVAILABLE", AWAY);
  expect(await remove(job, true).catch((thrown: unknown) => WhetstoneError.from(thrown))).toMatchObject({
    message: AWAY,
  });
  expect((await store.get(nameOf(job))).status?.reason).toBe("");
  const error = await remove(job).catch((thrown: unknown) => WhetstoneError.from(thrown));
  expect(error).toMatchObject({
    code: "UNAVAILABLE",
    message: `job "${nameOf(job)}" is not deleted yet, and it is tried again: ${AWAY}`,
  });
  expect((await store.get(nameOf(job))).status).toMatchObject({
    reason: "Deleting",
    message: `Not all of it is deleted yet, and it is tried again: ${AWAY}`,
  });
  expect(await countLedger(nats, nameOf(job))).toBe(2);
  expect(existsSync(join(dataPath, "runs", job.uid))).toBe(true);

  const untouched = await finishedJob({ objectStore: {} }, "");
  const end = new AbortController();
  const jobs = { all: async () => (await store.records()).map(({ value }) => value) };
  const work = finishDeletions({ ...(await deps()), jobs, logger: silentLogger }, end.signal, 20);
  await expect.poll(() => asked.length).toBeGreaterThan(2);
  expect(await store.find(nameOf(job))).toBeDefined();
  failure = undefined;
  await expect.poll(() => store.find(nameOf(job))).toBeUndefined();
  end.abort();
  await work;
  expect(await countLedger(nats, nameOf(job))).toBe(0);
  expect(await store.find(nameOf(untouched))).toBeDefined();
});

it("lists checkpoints of the disk, and those that the store alone has", async () => {
  const { storedRuns } = await deps();
  const runs = storedRuns as StoredRuns;
  const onDisk = [checkpointAt(4, "/runs/u/checkpoints/step-4"), checkpointAt(3, "/runs/u/checkpoints/step-3")];
  const { checkpoints, notice } = await runs.checkpoints(job, onDisk);
  expect(checkpoints.map(({ path }) => path)).toEqual([onDisk[0]?.path, onDisk[1]?.path, "s3://2"]);
  expect(notice).toBe("");
  const away = new StoredRuns({
    trainers: [{ ...trainer, getStoredRun: () => Promise.reject(new WhetstoneError("UNAVAILABLE", "no trainer")) }],
    policies: (await readLedger(nats)).policies,
  });
  expect(await away.checkpoints(job, onDisk)).toEqual({
    checkpoints: onDisk,
    notice: "what the object store has is not known: no trainer",
  });
});

it("of several trainers each lets the job go, and any that is there says what the store holds", async () => {
  const gone = { ...trainer, getStoredRun: () => Promise.reject(new WhetstoneError("UNAVAILABLE", "no trainer")) };
  const several = new StoredRuns({ trainers: [gone, trainer], policies: (await readLedger(nats)).policies });
  expect((await several.look(job))?.checkpoints).toHaveLength(2);
  await several.delete(job);
  expect(asked).toHaveLength(2);
});
