// SPDX-License-Identifier: Apache-2.0
// A whole job whose episodes are larger than a message may be, with their bodies in an object store that is away for a while:
// each is trained once, none lies in NATS, and all are gone with the job.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { Objm } from "@nats-io/obj";
import { connectNats } from "@whetstone/messaging";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { objectStoreProgram, type ObjectStoreServer, startObjectStore } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";
import { atStep, crashesOf, endsWell, statusOf, told } from "../support/watched-jobs.ts";

const STEPS = 8;
const EPISODES = STEPS * 8 * 4;
const BODY_BYTES = 700_000;
const AWAY_MS = 15_000;

const built = objectStoreProgram();
const skipped = "missing" in built ? built.missing : "";

describe.skipIf(skipped !== "")(`episodes in an object store${skipped && ` (skipped: ${skipped})`}`, () => {
  const objects = mkdtempSync(join(tmpdir(), "whetstone-objects-"));
  let store: ObjectStoreServer;
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;

  beforeAll(async () => {
    store = await startObjectStore((built as { program: string }).program, objects);
    Object.assign(process.env, store.environment);
    const environment = ["--python-env", "tests/support/large_environment.py"];
    runtime = await startLocalRuntime("--object-store", store.url, "--store-episodes", ...environment);
    jobs = createClient(JobService, runtime.address("controller"));
  }, 240_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
    store[Symbol.dispose]();
    rmSync(objects, { recursive: true, force: true });
  });

  const bodies = (): string[] => {
    const folder = store.file("episodes");
    if (!existsSync(folder)) return [];
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  };
  /** Bytes that NATS holds of a job beside its streams, and how many entries. */
  const inNats = async (job: string): Promise<{ entries: number; bytes: number }> => {
    const servers = `nats://${runtime.address("nats", "nats")}`;
    await using nats = await connectNats({ servers, name: "test", logger: silentLogger });
    const all = await (await new Objm(nats).open("ws-claims")).list();
    const own = all.filter(({ name }) => name.startsWith(`${job}/`));
    return { entries: own.length, bytes: own.reduce((sum, { size }) => sum + size, 0) };
  };

  it("are all trained, though the store is away in the middle", async () => {
    const job = {
      ...smallJob("large", runtime.model, { steps: STEPS, lag: 1 }),
      agent: { kind: "math" },
      environment: { kind: "large", pool: "python" },
    };
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, job) });
    await atStep(jobs, "large", 2);
    const before = crashesOf(runtime);
    store.stop();
    await told(jobs, "large", /^ObjectStoreFailing: The object store fails: s3:\/\/bucket\/team\/episodes\//);
    const { step = 0 } = (await statusOf(jobs, "large")) ?? {};
    await delay(AWAY_MS);
    // A step whose bodies were read before it went may end.
    expect((await statusOf(jobs, "large"))?.step).toBeLessThanOrEqual(step + 1);
    await store.start();
    await endsWell(runtime, jobs, "large", STEPS);
    expect(crashesOf(runtime)).toEqual(before);
    expect(bodies().length).toBeGreaterThanOrEqual(EPISODES);
    // One entry that says where they are.
    expect(await inNats("large")).toEqual({ entries: 1, bytes: 0 });
  }, 400_000);

  it("are read by the controller for whoever asks", async () => {
    const { episode } = await jobs.getEpisode({ episodeId: "large/g0/s0" });
    expect(JSON.stringify(episode?.trajectories[0]?.steps[0]?.info).length).toBeGreaterThan(BODY_BYTES);
  });

  it("are gone once their job is deleted", async () => {
    const size = await jobs.deleteJob({ name: "large", dryRun: true });
    expect(size.storedObjects).toBeGreaterThanOrEqual(EPISODES);
    expect(Number(size.storedBytes)).toBeGreaterThan(EPISODES * BODY_BYTES);
    expect(Number(size.streamBytes)).toBeLessThan(EPISODES * 10_000);
    store.stop();
    await expect(jobs.deleteJob({ name: "large" })).rejects.toThrow(
      /"large" is not deleted yet, and it is tried again: the object store fails: s3:\/\/bucket\/team\/episodes\//,
    );
    expect(await statusOf(jobs, "large")).toMatchObject({ reason: "Deleting" });
    await store.start();
    await expect.poll(() => jobs.getJob({ name: "large" }).catch(() => undefined), { timeout: 60_000 }).toBeUndefined();
    expect(bodies()).toEqual([]);
    expect(await inNats("large")).toEqual({ entries: 0, bytes: 0 });
  }, 120_000);
});
