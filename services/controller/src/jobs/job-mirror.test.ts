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

/** A mirror that has seen the records, what this process did then, and the changes. */
async function mirrorOf(
  records: KvRecord<Job>[],
  changes: KvChange<Job>[],
  ours = (_own: JobMirror): void => undefined,
) {
  const stop = new AbortController();
  const told: string[] = [];
  let reads = 0;
  async function* tell(): AsyncGenerator<KvChange<Job>> {
    ours(mirror);
    yield* changes;
    await Promise.resolve();
    stop.abort();
    throw new Error("closed");
  }
  const mirror = new JobMirror({ changes: tell, records: () => Promise.resolve((reads++, records)) });
  mirror.onChange((name, job) => told.push(`${name} ${job ? JobPhase[job.status?.phase ?? 0] : "is gone"}`));
  await mirror.follow(stop.signal);
  const phases = async () => (await mirror.all()).map(({ spec, status }) => [spec?.name, status?.phase]);
  return { mirror, told, phases, reads: () => reads };
}

describe("JobMirror", () => {
  it("has what was there and what has changed since, tells each once, and asks once", async () => {
    const there = [record("a", 1, JobPhase.QUEUED), record("b", 2, JobPhase.QUEUED)];
    const again = [put("a", 1, JobPhase.QUEUED), put("b", 2, JobPhase.QUEUED)];
    const changes = [...again, put("b", 3, JobPhase.RUNNING), { kind: "delete", key: "a", revision: 4 } as const];
    const { mirror, phases, told, reads } = await mirrorOf(there, changes);
    expect(await phases()).toEqual([["b", JobPhase.RUNNING]]);
    expect([mirror.get("b")?.status?.phase, mirror.get("a")]).toEqual([JobPhase.RUNNING, undefined]);
    expect([told, reads()]).toEqual([["a QUEUED", "b QUEUED", "b RUNNING", "a is gone"], 1]);
  });

  it("does not go back behind what this process wrote", async () => {
    const changes = [put("a", 4, JobPhase.QUEUED), put("a", 5, JobPhase.RUNNING)];
    const { phases, told } = await mirrorOf([], changes, (own) => own.take(record("a", 5, JobPhase.RUNNING)));
    expect(await phases()).toEqual([["a", JobPhase.RUNNING]]);
    expect(told).toEqual(["a RUNNING"]);
  });

  it("does not bring back what was deleted, here or elsewhere", async () => {
    const changes: KvChange<Job>[] = [
      { kind: "delete", key: "a", revision: 9 },
      put("a", 8, JobPhase.RUNNING),
      put("b", 3, JobPhase.RUNNING),
      { kind: "delete", key: "b", revision: 4 },
    ];
    const { phases, told } = await mirrorOf([record("b", 3, JobPhase.RUNNING)], changes, (own) => own.drop("b", 3));
    expect(await phases()).toEqual([]);
    expect(told.slice(0, 2)).toEqual(["b RUNNING", "b is gone"]);
  });

  it("keeps what has changed since this process deleted it", async () => {
    const { phases } = await mirrorOf([record("a", 4, JobPhase.QUEUED)], [], (own) => own.drop("a", 3));
    expect(await phases()).toEqual([["a", JobPhase.QUEUED]]);
  });

  it("is not changed by whoever holds a record that it was given", async () => {
    const mine = record("a", 5, JobPhase.QUEUED);
    const { phases } = await mirrorOf([], [], (own) => own.take(mine));
    if (mine.value.status) mine.value.status.phase = JobPhase.FAILED;
    expect(await phases()).toEqual([["a", JobPhase.QUEUED]]);
  });

  it("knows nothing while nobody follows: what is written meanwhile is read when it begins", async () => {
    const { mirror, told } = await mirrorOf([], []);
    mirror.take(record("a", 1, JobPhase.QUEUED));
    expect([mirror.get("a"), told]).toEqual([undefined, []]);
  });

  it("says what it could not read", async () => {
    const mirror = new JobMirror({
      records: () => Promise.reject(new Error("no bucket")),
      changes: () => {
        throw new Error("not reached");
      },
    });
    await expect(mirror.follow(new AbortController().signal)).rejects.toThrow("no bucket");
    await expect(mirror.all()).rejects.toThrow("no bucket");
  });
});
