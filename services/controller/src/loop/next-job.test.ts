// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Job, JobPhase, JobSchema, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { needyJobs, nextJob } from "./next-job.ts";

const job = (name: string, age: number, phase: JobPhase, wish: JobWish = JobWish.RUN): Job =>
  create(JobSchema, { spec: { name }, createdAt: timestampFromMs(1e9 - age), wish, status: { phase } });
const chosen = (...jobs: Job[]): string | undefined => nextJob(jobs)?.spec?.name;

describe("nextJob", () => {
  it("takes up what a former controller was running before anything else", () => {
    expect(chosen(job("old", 9, JobPhase.QUEUED), job("running", 1, JobPhase.RUNNING))).toBe("running");
  });
  it("closes the books of a cancelled job next, also of a suspended one", () => {
    const cancelled = job("cancelled", 1, JobPhase.SUSPENDED, JobWish.CANCEL);
    expect(chosen(job("old", 9, JobPhase.QUEUED), cancelled)).toBe("cancelled");
  });
  it("else runs the oldest that is wanted", () => {
    expect(chosen(job("young", 1, JobPhase.QUEUED), job("old", 9, JobPhase.QUEUED))).toBe("old");
  });
  it("leaves finished, suspended and unwanted jobs alone", () => {
    const idle = job("idle", 5, JobPhase.QUEUED, JobWish.SUSPEND);
    expect(chosen(job("done", 9, JobPhase.SUCCEEDED), job("asleep", 8, JobPhase.SUSPENDED), idle)).toBeUndefined();
  });
});

describe("needyJobs", () => {
  const held = (made: Job, holdReason: string): Job => ({ ...made, holdReason });
  const needy = (...jobs: Job[]): (string | undefined)[] => needyJobs(jobs).map(({ spec }) => spec?.name);
  const { QUEUED, RUNNING, SUSPENDED } = JobPhase;

  it("are the running one, then by age those that wait for their turn, or for engines and trainer", () => {
    const engines = held(job("engines", 5, QUEUED), "WaitingForEngines");
    const resumed = held(job("resumed", 4, SUSPENDED), "WaitingForTrainer");
    expect(needy(job("turn", 3, QUEUED), engines, resumed, job("running", 1, RUNNING))).toEqual([
      "running",
      "engines",
      "resumed",
      "turn",
    ]);
  });
  it("are those, too, that stop, or whose changed text is being taken over", () => {
    const changed = held(job("changed", 2, SUSPENDED), "Updating");
    const stops = held(job("stops", 1, RUNNING, JobWish.SUSPEND), "Evicted");
    expect(needy(changed, stops)).toEqual(["stops", "changed"]);
  });
  it("are none that wait for quota, are suspended, or only have their books to be closed", () => {
    const waits = held(job("waits", 4, QUEUED), "WaitingForQuota");
    const suspended = held(job("suspended", 3, SUSPENDED, JobWish.SUSPEND), "WaitingForEngines");
    const evicted = held(job("evicted", 1, SUSPENDED), "Evicted");
    expect(needy(waits, suspended, job("cancelled", 2, QUEUED, JobWish.CANCEL), evicted)).toEqual([]);
  });
});
