// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Job, JobPhase, JobSchema, JobWish } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { nextJob } from "./next-job.ts";

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
