// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type DesiredState, type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { DESIRED, isWanted, mayReplace, waitsFor } from "./desired-state.ts";
import { type JobState, jobState, reached } from "./job-state.ts";

const { run, suspendByUser, suspendByController, cancelByUser, cancelByDeletion, failByController } = DESIRED;
const waits = suspendByController("Evicted");
const late = failByController("ActiveDeadlineExceeded", "It was late.");

const job = (phase: JobPhase, desiredState?: DesiredState): Job =>
  create(JobSchema, { status: { phase }, ...(desiredState && { desiredState }) });

describe("a job", () => {
  const { QUEUED, RUNNING, SUSPENDED } = JobPhase;
  const open = [QUEUED, RUNNING, SUSPENDED];
  const over = [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED];

  it.each<[string, DesiredState | undefined, JobState["kind"][]]>([
    ["run", run(), ["queued", "running", "resuming"]],
    ["be suspended by its user", suspendByUser(), ["suspended", "suspending", "suspended"]],
    ["wait", waits, ["suspended", "suspending", "suspended"]],
    ["be cancelled", cancelByUser(), ["ending", "ending", "ending"]],
    ["be deleted", cancelByDeletion(), ["ending", "ending", "ending"]],
    ["fail", late, ["ending", "ending", "ending"]],
    ["become nothing that its record says", undefined, ["queued", "running", "resuming"]],
  ])("that has to %s, by phase", (_, desired, kinds) => {
    expect(open.map((phase) => jobState(job(phase, desired)).kind)).toEqual(kinds);
    expect(over.map((phase) => jobState(job(phase, desired)).kind)).toEqual(["ended", "ended", "ended"]);
  });

  it("without a status waits for its turn", () => {
    expect(jobState(create(JobSchema)).kind).toBe("queued");
  });

  it("says in its status, once it is there, what was desired", () => {
    const status = ({ desired }: DesiredState) =>
      desired.case === "suspend" || desired.case === "end" ? reached(desired.value) : undefined;
    expect(status(waits)).toEqual({ phase: SUSPENDED, reason: "Evicted", message: "It goes on by itself." });
    expect(status(cancelByUser())).toEqual({ phase: JobPhase.CANCELLED, reason: "CancelledByUser", message: "" });
    expect(status(late)).toEqual({
      phase: JobPhase.FAILED,
      reason: "ActiveDeadlineExceeded",
      message: "It was late.",
    });
  });
});

describe("a desired state", () => {
  it("is what the user wants, whether or not the job has to wait", () => {
    expect([run(), waits, suspendByUser(), cancelByUser()].map(isWanted)).toEqual([true, true, false, false]);
    expect([run(), waits, suspendByUser(), cancelByUser()].map(waitsFor)).toEqual(["", "Evicted", "", ""]);
  });

  it("replaces any but an end, which only a deletion replaces", () => {
    for (const former of [undefined, run(), waits, suspendByUser()]) expect(mayReplace(former, run())).toBe(true);
    for (const next of [run(), suspendByUser(), cancelByUser()]) expect(mayReplace(late, next)).toBe(false);
    expect(mayReplace(late, cancelByDeletion())).toBe(true);
  });
});
