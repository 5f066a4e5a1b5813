// SPDX-License-Identifier: Apache-2.0
// Whole jobs whose weights and checkpoints go through an object store: a damaged shard, a full bucket, a store that is
// away, and a trainer whose disk is lost. Nothing is lost, the status says what is wrong, and training goes on by itself.
import { closeSync, existsSync, openSync, readdirSync, readSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import {
  canMountVolumes,
  objectStoreProgram,
  type ObjectStoreServer,
  smallVolume,
  type SmallVolume,
  startObjectStore,
  waitFor,
} from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";
import { atStep, changingJob, crashesOf, endsWell, statusOf, told } from "../support/watched-jobs.ts";

/** Done in seconds each, and long enough for a fault in the middle. */
const STEPS = 40;
const AWAY_MS = 20_000;
/** Well below the time that an episode has, well above what a step takes. */
const STOPPED_MS = 8_000;

const built = objectStoreProgram();
const skipped = "missing" in built ? built.missing : canMountVolumes() ? "" : "no file system can be mounted here";

describe.skipIf(skipped !== "")(`jobs over an object store${skipped && ` (skipped: ${skipped})`}`, () => {
  let volume: SmallVolume;
  let store: ObjectStoreServer;
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;

  beforeAll(async () => {
    volume = smallVolume(64);
    store = await startObjectStore((built as { program: string }).program, join(volume.path, "objects"));
    Object.assign(process.env, store.environment);
    runtime = await startLocalRuntime("--object-store", store.url);
    jobs = createClient(JobService, runtime.address("controller"));
  }, 240_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
    store[Symbol.dispose]();
    volume[Symbol.dispose]();
  });

  async function submit(name: string): Promise<string> {
    const { job } = await jobs.submitJob({
      spec: fromJson(JobSpecSchema, changingJob(name, runtime.model, STEPS, { objectStore: {} })),
    });
    await atStep(jobs, name, 2);
    return job?.uid ?? "";
  }

  it("a damaged shard is told by tensor and place, and the trainer writes it again", async () => {
    const uid = await submit("shard");
    const engine = pidOf(runtime, "engine-0");
    const folder = store.file(`runs/${uid}/weights`);
    const newest = await publishedWhileStopped(engine, folder);
    const shard = join(folder, `v${newest}`, "model.safetensors");
    flipByte(shard);
    process.kill(engine, "SIGCONT");
    const status = await told(jobs, "shard", /EnginesBehind/);
    expect(status.message).toMatch(
      new RegExp(
        `content differs from the digest in manifest.json; s3://bucket/team/runs/${uid}/weights/v${newest}/model`,
      ),
    );
    // The trainer has it whole, and writes it again.
    await endsWell(runtime, jobs, "shard", STEPS);
  }, 400_000);

  it("a full bucket is told, and training goes on once there is space", async () => {
    await submit("full");
    volume.fill();
    const status = await told(
      jobs,
      "full",
      /^ObjectStoreFull: No space left in the object store: s3:\/\/bucket\/team\/runs/,
    );
    await delay(3_000);
    expect((await statusOf(jobs, "full"))?.step).toBeLessThanOrEqual(status.step + 1);
    volume.free();
    await endsWell(runtime, jobs, "full", STEPS);
  }, 400_000);

  it("a store that is away for 20 s is told, kills nobody, and training goes on", async () => {
    await submit("away");
    const before = crashesOf(runtime);
    store.stop();
    await told(jobs, "away", /ObjectStoreFailing|EnginesBehind/);
    await delay(AWAY_MS);
    await store.start();
    await endsWell(runtime, jobs, "away", STEPS);
    expect(crashesOf(runtime)).toEqual(before);
  }, 400_000);

  it("a trainer that is killed and loses its disk goes on from the store", async () => {
    const uid = await submit("disk");
    const run = join(runtime.data, "runs", uid);
    process.kill(pidOf(runtime, "trainer"), "SIGKILL");
    rmSync(run, { recursive: true, force: true });
    await endsWell(runtime, jobs, "disk", STEPS);
    // What came back is no older than what was in the store, and the store has the end of the job.
    expect(existsSync(join(run, "checkpoints/step-1"))).toBe(false);
    expect(existsSync(store.file(`runs/${uid}/checkpoints/step-${STEPS}/state.json`))).toBe(true);
  }, 400_000);

  it("a job that is deleted goes from the store, too: at once, or by itself once the store answers", async () => {
    const uidOf = async (name: string): Promise<string> => (await jobs.getJob({ name })).job?.uid ?? "";
    const [gone, late] = [await uidOf("shard"), await uidOf("disk")];
    rmSync(join(runtime.data, "runs", late, "checkpoints"), { recursive: true });
    const { checkpoints, notice } = await jobs.listCheckpoints({ name: "disk" });
    expect(notice).toBe("");
    expect(checkpoints[0]).toMatchObject({ step: STEPS, modelPath: `s3://bucket/team/runs/${late}/weights/v${STEPS}` });
    expect(await jobs.deleteJob({ name: "shard" })).toMatchObject({ storedObjects: expect.toSatisfy((n) => n > 10) });
    expect(filesBelow(store.file(`runs/${gone}`))).toEqual([]);

    store.stop();
    await expect(jobs.deleteJob({ name: "disk" }, { deadlineMs: 150_000 })).rejects.toThrow(
      /"disk" is not deleted yet/,
    );
    expect(await statusOf(jobs, "disk")).toMatchObject({
      reason: "Deleting",
      message: expect.stringContaining("the object store fails: s3://bucket/team/runs/") as string,
    });
    await store.start();
    await expect.poll(() => jobs.getJob({ name: "disk" }).catch(() => undefined), { timeout: 60_000 }).toBeUndefined();
    expect(filesBelow(store.file(`runs/${late}`))).toEqual([]);
    expect(filesBelow(store.file("runs")).length).toBeGreaterThan(0);
  }, 400_000);
});

function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

/**
 * A version that the engine, which is stopped now, has not read. One that is stopped in the middle of a batch holds up the
 * next version until its episodes are out of time, so it goes on and is stopped again at another moment.
 */
async function publishedWhileStopped(engine: number, folder: string): Promise<number> {
  for (let tries = 0; tries < 20; tries++) {
    process.kill(engine, "SIGSTOP");
    const next = newestIn(folder) + 1;
    const isWhole = (): boolean => existsSync(join(folder, `v${next}`, "manifest.json"));
    if (await waitFor(isWhole, { timeoutMs: STOPPED_MS, intervalMs: 5 }).catch(() => false)) return next;
    process.kill(engine, "SIGCONT");
    await delay(100);
  }
  throw new Error("no version was published while the engine was stopped");
}

function newestIn(folder: string): number {
  const whole = readdirSync(folder).filter((name) => existsSync(join(folder, name, "manifest.json")));
  return Math.max(0, ...whole.map((name) => Number(name.slice(1))));
}

function pidOf(runtime: LocalRuntime, service: string): number {
  return runtime.services().find(({ name }) => name === service)?.pid ?? 0;
}

function flipByte(path: string): void {
  const file = openSync(path, "r+");
  try {
    const byte = Buffer.alloc(1);
    const at = statSync(path).size - 100;
    readSync(file, byte, 0, 1, at);
    writeSync(file, Buffer.of((byte[0] ?? 0) ^ 1), 0, 1, at);
  } finally {
    closeSync(file);
  }
}
