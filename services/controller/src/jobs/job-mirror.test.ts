// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import type { KvChange, KvRecord } from "@whetstone/messaging";
import { type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { JobMirror } from "./job-mirror.ts";

function record(key: string, revision: number, phase: JobPhase): KvRecord<Job> {
  return { key, revision, value: create(JobSchema, { spec: { name: key }, status: { phase } }) };
}

const put = (...args: Parameters<typeof record>): KvChange<Job> => ({ kind: "put", ...record(...args) });

/** A mirror that has seen the records and then the changes. */
async function mirrorOf(records: KvRecord<Job>[], changes: KvChange<Job>[], ours: KvRecord<Job>[] = []) {
  const stop = new AbortController();
  const told: string[] = [];
  let reads = 0;
  async function* tell(): AsyncGenerator<KvChange<Job>> {
    for (const one of ours) mirror.take(one);
    yield* changes;
    await Promise.resolve();
    stop.abort();
    throw new Error("closed");
  }
  const mirror = new JobMirror({ changes: tell, records: () => Promise.resolve((reads++, records)) });
  await mirror.follow(stop.signal, (job) => told.push(job.spec?.name ?? ""));
  const phases = async () => (await mirror.all()).map(({ spec, status }) => [spec?.name, status?.phase]);
  return { mirror, told, phases, reads: () => reads };
}

describe("JobMirror", () => {
  it("has what was there and what has changed since, and asks once", async () => {
    const changes = [put("b", 3, JobPhase.RUNNING), { kind: "delete", key: "a", revision: 4 } as const];
    const { phases, told, reads } = await mirrorOf(
      [record("a", 1, JobPhase.QUEUED), record("b", 2, JobPhase.QUEUED)],
      changes,
    );
    expect(await phases()).toEqual([["b", JobPhase.RUNNING]]);
    await phases();
    expect([told, reads()]).toEqual([["b"], 1]);
  });

  it("does not go back behind what this process wrote", async () => {
    const { phases } = await mirrorOf([], [put("a", 4, JobPhase.QUEUED)], [record("a", 5, JobPhase.RUNNING)]);
    expect(await phases()).toEqual([["a", JobPhase.RUNNING]]);
  });

  it("does not bring back what was deleted", async () => {
    const { mirror, phases } = await mirrorOf([], [{ kind: "delete", key: "a", revision: 9 }]);
    mirror.take(record("a", 8, JobPhase.RUNNING));
    expect(await phases()).toEqual([]);
  });

  it("is not changed by whoever holds a record that it was given", async () => {
    const mine = record("a", 5, JobPhase.QUEUED);
    const { mirror, phases } = await mirrorOf([], []);
    mirror.take(mine);
    if (mine.value.status) mine.value.status.phase = JobPhase.FAILED;
    expect(await phases()).toEqual([["a", JobPhase.QUEUED]]);
  });

  it("says what it could not read", async () => {
    const mirror = new JobMirror({
      records: () => Promise.reject(new Error("no bucket")),
      changes: () => {
        throw new Error("not reached");
      },
    });
    await expect(mirror.follow(new AbortController().signal, () => undefined)).rejects.toThrow("no bucket");
    await expect(mirror.all()).rejects.toThrow("no bucket");
  });
});
