// SPDX-License-Identifier: Apache-2.0
import { create, fromJson } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { DESIRED } from "@whetstone/messaging/jobs";
import { type DesiredState, type Job, JobPhase, JobSchema, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { DELETING } from "../jobs/deleting.ts";
import { deletionNeedsTrainer, jobsThatNeedParts, nextJob, type Room } from "./next-job.ts";

const job = (name: string, age: number, phase: JobPhase, desiredState: DesiredState = DESIRED.run()): Job =>
  create(JobSchema, { spec: { name }, createdAt: timestampFromMs(1e9 - age), desiredState, status: { phase } });
const ONE: Room = { engines: 1, trainers: 1 };
const chosen = (...jobs: Job[]): string | undefined => nextJob(jobs, new Set(), ONE)?.spec?.name;

describe("nextJob", () => {
  it("takes up what a former controller was running before anything else", () => {
    expect(chosen(job("old", 9, JobPhase.QUEUED), job("running", 1, JobPhase.RUNNING))).toBe("running");
  });
  it("closes the books of a cancelled job next, also of a suspended one", () => {
    const cancelled = job("cancelled", 1, JobPhase.SUSPENDED, DESIRED.cancelByUser());
    expect(chosen(job("old", 9, JobPhase.QUEUED), cancelled)).toBe("cancelled");
  });
  it("else runs the oldest that is wanted", () => {
    expect(chosen(job("young", 1, JobPhase.QUEUED), job("old", 9, JobPhase.QUEUED))).toBe("old");
  });
  it("leaves finished, suspended and unwanted jobs alone", () => {
    const idle = job("idle", 5, JobPhase.QUEUED, DESIRED.suspendByUser());
    expect(chosen(job("done", 9, JobPhase.SUCCEEDED), job("asleep", 8, JobPhase.SUSPENDED), idle)).toBeUndefined();
  });
});

describe("nextJob, beside others that run", () => {
  const trains = (name: string, age: number, more: object = {}): Job =>
    Object.assign(job(name, age, JobPhase.QUEUED), {
      spec: create(JobSpecSchema, { name, loop: { steps: 3 } }),
      ...more,
    });
  const next = (room: Room, ...jobs: Job[]): string | undefined => nextJob(jobs, new Set(["runs"]), room)?.spec?.name;
  const runs = trains("runs", 20);
  const evaluates = job("evaluates", 1, JobPhase.QUEUED);

  it("lets an evaluation pass a job that waits for a trainer, and nobody one that waits for an engine", () => {
    expect(next({ engines: 1, trainers: 0 }, runs, trains("old", 9), evaluates)).toBe("evaluates");
    expect(next({ engines: 0, trainers: 1 }, runs, trains("old", 9), evaluates)).toBeUndefined();
    expect(next({ engines: 1, trainers: 1 }, runs, trains("old", 9), evaluates)).toBe("old");
  });
  it("takes a job with a trainer of its own whether or not one is free", () => {
    expect(next({ engines: 1, trainers: 0 }, runs, trains("own", 9, { trainerAddress: "ray:7400" }))).toBe("own");
  });
  it("closes the books of a cancelled job without room", () => {
    const cancelled = Object.assign(trains("cancelled", 2), { desiredState: DESIRED.cancelByUser() });
    expect(next({ engines: 0, trainers: 0 }, runs, trains("old", 9), cancelled)).toBe("cancelled");
  });
});

describe("jobsThatNeedParts", () => {
  const waits = DESIRED.suspendByController;
  const inNeed = (...jobs: Job[]): (string | undefined)[] => jobsThatNeedParts(jobs).map(({ spec }) => spec?.name);
  const { QUEUED, RUNNING, SUSPENDED } = JobPhase;

  it("are the running one, then by age those that wait for their turn, or for engines and trainer", () => {
    const engines = job("engines", 5, QUEUED, waits("WaitingForEngines"));
    const resumed = job("resumed", 4, SUSPENDED, waits("WaitingForTrainer"));
    expect(inNeed(job("turn", 3, QUEUED), engines, resumed, job("running", 1, RUNNING))).toEqual([
      "running",
      "engines",
      "resumed",
      "turn",
    ]);
  });
  it("are those, too, that stop, or whose changed text is being taken over", () => {
    const changed = job("changed", 2, SUSPENDED, waits("Updating"));
    const stops = job("stops", 1, RUNNING, DESIRED.suspendByUser());
    expect(inNeed(changed, stops)).toEqual(["stops", "changed"]);
  });
  it("are none that wait for quota, are suspended, or only have their books to be closed", () => {
    const quota = job("waits", 4, QUEUED, waits("WaitingForQuota"));
    const suspended = job("suspended", 3, SUSPENDED, DESIRED.suspendByUser());
    const evicted = job("evicted", 1, SUSPENDED, waits("Evicted"));
    expect(inNeed(quota, suspended, job("cancelled", 2, QUEUED, DESIRED.cancelByUser()), evicted)).toEqual([]);
  });
});

it("a job that is deleted needs a trainer while the object store may hold its run", () => {
  const deleted = (reason: string, kind: "objectStore" | "stream"): Job => {
    const spec = fromJson(JobSpecSchema, { name: "deleted", weights: { transport: { [kind]: {} } } });
    return create(JobSchema, { spec, status: { phase: JobPhase.SUCCEEDED, reason } });
  };
  expect(deletionNeedsTrainer([deleted("Finished", "objectStore"), deleted(DELETING.reason, "stream")])).toBe(false);
  expect(deletionNeedsTrainer([deleted(DELETING.reason, "objectStore")])).toBe(true);
});
