// SPDX-License-Identifier: Apache-2.0
// A finished job is deleted with what belongs to it, over a real nats-server; nothing of another job goes.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromJson } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import {
  ensureJobStreams,
  ensurePlatform,
  episodeSubject,
  jobSize,
  type Nats,
  openStreams,
  type TypedStreams,
} from "@whetstone/messaging";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { DeleteJobRequestSchema, type Job, JobPhase, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { JobStore } from "../job-store.ts";
import { countLedger, KvLedger } from "../../loop/batch/kv-ledger.ts";
import { deleteJob, type DeleteJobDeps } from "./delete-job.ts";

let server: TestNats;
let nats: Nats;
let streams: TypedStreams;
let store: JobStore;
let dataPath: string;
let count = 0;
const collected: string[] = [];

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

const DIGEST = "ab".repeat(32);
let name: string;
beforeEach(() => {
  name = `job-${++count}`;
  collected.length = 0;
});

async function setPhase(job: string, phase: JobPhase): Promise<void> {
  await store.change(job, (stored) => {
    if (stored.status) stored.status.phase = phase;
  });
}

/** A job with two episodes, two entries of the ledger, a version of weights and a checkpoint. */
async function jobThatRan(job: string, phase: JobPhase, model = `artifact://models/m@sha256:${DIGEST}`): Promise<Job> {
  const made = await store.create(fromJson(JobSpecSchema, { name: job, model: { path: model } }));
  await setPhase(job, phase);
  await ensureJobStreams(nats, job);
  for (const sample of [0, 1]) nats.publish(episodeSubject(job, "g0", sample), "sealed");
  await nats.flush();
  await expect.poll(async () => (await jobSize(nats, job)).episodes).toBe(2);
  const ledger = await KvLedger.take(nats, job, "test");
  await ledger.savePolicy(create(PolicyRecordSchema, { policyVersion: 1n }));
  for (const folder of ["weights/v1", "checkpoints/step-1"]) {
    mkdirSync(join(dataPath, "runs", made.uid, folder), { recursive: true });
    writeFileSync(join(dataPath, "runs", made.uid, folder, "file"), "x".repeat(1000));
  }
  return made;
}

const request = (dryRun = false) => create(DeleteJobRequestSchema, { name, dryRun });
const deps = (over: Partial<DeleteJobDeps> = {}): DeleteJobDeps => ({
  nats,
  store,
  dataPath,
  streams,
  storedRuns: { look: () => Promise.resolve(undefined), delete: () => Promise.resolve() },
  atWork: new Set(),
  artifacts: { collect: (digest) => Promise.resolve((collected.push(digest), { freed: 0, jobs: [] })) },
  ...over,
});
const remove = (over: Partial<DeleteJobDeps> = {}, dryRun = false) =>
  deleteJob(deps(over), request(dryRun), AbortSignal.timeout(10_000));
const runs = (): string[] => readdirSync(join(dataPath, "runs"));

async function failure(work: Promise<unknown>): Promise<WhetstoneError> {
  return await work.then(
    () => expect.fail("it was done"),
    (error: unknown) => WhetstoneError.from(error),
  );
}

const WHOLE = { episodes: 2n, ledgerEntries: 2, weights: 1, checkpoints: 1, runBytes: 2000n };

describe("a job that is deleted", () => {
  it("is gone with what belongs to it, and nothing of another", async () => {
    const other = `${name}-2`;
    const [{ uid }, { uid: otherUid }] = [
      await jobThatRan(name, JobPhase.SUCCEEDED),
      await jobThatRan(other, JobPhase.SUCCEEDED),
    ];
    expect(await remove({}, true)).toMatchObject(WHOLE);
    expect((await store.get(name)).status?.reason).toBe("");
    expect(await remove()).toMatchObject(WHOLE);
    expect(await store.find(name)).toBeUndefined();
    expect([await jobSize(nats, name), await countLedger(nats, name)]).toEqual([{ episodes: 0, bytes: 0 }, 0]);
    expect(runs()).not.toContain(uid);
    expect(collected).toEqual([DIGEST]);
    expect([(await jobSize(nats, other)).episodes, await countLedger(nats, other)]).toEqual([2, 2]);
    expect(runs()).toContain(otherUid);
    expect(await failure(remove())).toMatchObject({ code: "NOT_FOUND" });
  });

  it("leaves a name that another job may have", async () => {
    const { uid } = await jobThatRan(name, JobPhase.FAILED);
    await remove();
    expect((await jobThatRan(name, JobPhase.QUEUED)).uid).not.toBe(uid);
  });

  it.each([JobPhase.QUEUED, JobPhase.RUNNING, JobPhase.SUSPENDED])(
    "is not deleted in phase %i, and whoever asks is told how to end it",
    async (phase) => {
      await jobThatRan(name, phase);
      const error = await failure(remove());
      expect(error).toMatchObject({
        code: "CONFLICT",
        message: expect.stringContaining(`whet jobs cancel ${name}`) as string,
      });
      expect((await jobSize(nats, name)).episodes).toBe(2);
    },
  );

  it("stays while a job that is not finished starts from its weights", async () => {
    const { uid } = await jobThatRan(name, JobPhase.SUCCEEDED);
    const heir = `${name}-heir`;
    await jobThatRan(heir, JobPhase.QUEUED, join(dataPath, "runs", uid, "weights/v1"));
    expect((await failure(remove())).message).toContain(`${heir} starts from`);
    await setPhase(heir, JobPhase.CANCELLED);
    await remove();
    expect(await store.find(name)).toBeUndefined();
  });

  it("is deleted to its end where the controller was killed half-way", async () => {
    const { uid } = await jobThatRan(name, JobPhase.SUCCEEDED);
    const killed = new Proxy(store, {
      get(target, key) {
        if (key === "remove") return () => Promise.reject(new Error("killed"));
        const value: unknown = Reflect.get(target, key);
        return typeof value === "function" ? (value as () => unknown).bind(target) : value;
      },
    });
    expect((await failure(remove({ store: killed }))).message).toBe("killed");
    expect((await store.get(name)).status).toMatchObject({ reason: "Deleting" });
    expect(existsSync(join(dataPath, "runs", uid))).toBe(false);
    expect(await remove()).toMatchObject({ episodes: 0n, ledgerEntries: 0, runBytes: 0n });
    expect(await store.find(name)).toBeUndefined();
  });

  it("goes with its object on a cluster, and is waited for", async () => {
    const { uid } = await jobThatRan(name, JobPhase.SUCCEEDED);
    const deleteObject = (job: string, of: string): Promise<boolean> => {
      expect([job, of]).toEqual([name, uid]);
      setTimeout(() => void store.remove(name, uid), 300); // As its reconciler does last.
      return Promise.resolve(true);
    };
    await remove({ deleteObject });
    expect(await store.find(name)).toBeUndefined();
    expect(runs()).toContain(uid); // The reconciler's to delete.
  });
});
