// SPDX-License-Identifier: Apache-2.0
// Two controllers at one bucket of a real nats-server: what each knows of the jobs that either writes.
import { create } from "@bufbuild/protobuf";
import { jetstreamManager } from "@nats-io/jetstream";
import { ensurePlatform, JOBS_BUCKET, type Nats } from "@whetstone/messaging";
import { DESIRED } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats, waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RunSignals, StopRun } from "../loop/job-runner.ts";
import { Scheduler } from "../loop/scheduler.ts";
import { JobStore } from "./job-store.ts";

let server: TestNats;
let nats: Nats;
let ours: JobStore;
let theirs: JobStore;
let stop: AbortController;
let following: Promise<void>;

beforeEach(async () => {
  server = await startNats();
  nats = await server.connect();
  await ensurePlatform(nats);
  [ours, theirs] = [await JobStore.open(nats), await JobStore.open(nats)];
  await theirs.create(create(JobSpecSchema, { name: "old" }));
  stop = new AbortController();
  following = ours.mirror.follow(stop.signal);
  await ours.mirror.all();
});
afterEach(async () => {
  stop.abort();
  await following;
  await nats[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const suspend = (job: Job): void => void (job.desiredState = DESIRED.suspendByUser());
const known = (name: string) => ours.mirror.get(name)?.desiredState;

describe("the mirror of a store", () => {
  it("has what others write", async () => {
    expect(known("old")).toEqual(DESIRED.run());
    await theirs.change("old", suspend);
    await waitFor(() => known("old")?.desired.case === "suspend");
    await theirs.remove("old", (await theirs.get("old")).uid);
    await waitFor(() => known("old") === undefined);
  });

  it("has what this process writes before the bucket tells of it", async () => {
    const store = await JobStore.open(nats);
    const silence = new AbortController();
    store.changes = async function* () {
      await new Promise((resolve) => silence.signal.addEventListener("abort", resolve));
    };
    const over = store.mirror.follow(silence.signal);
    await store.mirror.all();
    const desired = (name: string) => store.mirror.get(name)?.desiredState;
    await store.create(create(JobSpecSchema, { name: "new" }));
    expect(desired("new")).toEqual(DESIRED.run());
    await store.change("new", suspend);
    expect(desired("new")).toEqual(DESIRED.suspendByUser());
    await store.remove("new", (await store.get("new")).uid);
    expect(desired("new")).toBeUndefined();
    silence.abort();
    await over;
  });

  it("is the only one that watches the bucket, whoever listens", async () => {
    for (let listener = 0; listener < 3; listener++) ours.mirror.onChange(() => undefined);
    const manager = await jetstreamManager(nats);
    const consumers = async () => await manager.consumers.list(`KV_${JOBS_BUCKET}`).next();
    const watchers = async () => (await consumers()).filter(({ config }) => !config.headers_only); // Keys are listed so.
    await waitFor(async () => (await watchers()).length > 0);
    expect(await watchers()).toHaveLength(1);
  });

  it("lets the leader stop a run that somebody else's controller was told to suspend", async () => {
    const { mirror } = ours;
    const scheduler = new Scheduler({
      logger: silentLogger,
      jobs: () => mirror.all(),
      capacity: () => Promise.resolve({ engines: 1, held: 0, trainers: 1 }),
      prepare: () => Promise.resolve(),
      setPhase: (name, phase, reason, message) =>
        ours.change(name, ({ status }) => void (status && Object.assign(status, { phase, reason, message }))),
      run: (_, { suspend }) => endOf(suspend),
    });
    mirror.onChange((_, job) => job && scheduler.note(job));
    const over = scheduler.run(stop.signal);
    const status = async () => (await theirs.get("old")).status;
    await waitFor(async () => (await status())?.phase === JobPhase.RUNNING);
    await theirs.change("old", suspend);
    await waitFor(async () => (await status())?.phase === JobPhase.SUSPENDED);
    expect(await status()).toMatchObject({ reason: "SuspendedByUser", message: "Resume it with `whet jobs resume`." });
    stop.abort();
    await over;
  });
});

/** A run that goes on until it is told to stop. */
async function endOf(signal: RunSignals["suspend"]): Promise<StopRun["ending"]> {
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  if (signal.reason instanceof StopRun) return signal.reason.ending;
  throw new Error("nobody said what becomes of it");
}
