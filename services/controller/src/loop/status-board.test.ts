// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import { JobPhase, type JobStatus, JobStatusSchema, StepRecordSchema } from "@whetstone/proto/jobs/v1/jobs";
import { NoticeSchema } from "@whetstone/proto/trainer/v1/trainer";
import { expect, it } from "vitest";
import { StatusBoard } from "./status-board.ts";

function openBoard(phase = JobPhase.RUNNING) {
  const status = create(JobStatusSchema, { phase, reason: "Training" });
  let writes = 0;
  const board = new StatusBoard(
    {
      write: (change: (status: JobStatus) => void) => {
        writes++;
        change(status);
        return Promise.resolve();
      },
      onStep: () => Promise.resolve(),
      onValidation: () => Promise.resolve(),
    },
    [],
  );
  return { board, status, writes: () => writes };
}

const full = create(NoticeSchema, { reason: "DiskFull", message: "No space on /data." });
const damaged = create(NoticeSchema, { reason: "CheckpointDamaged", message: "step-7 was set aside." });

it("what a trainer has to say stands in the status of the job, and goes when it is over", async () => {
  const { board, status } = openBoard();
  board.notices("trainer", [damaged]);
  board.notices("step", [full]);
  await board.flush();
  expect(status).toMatchObject({ reason: "DiskFull", message: "No space on /data. step-7 was set aside." });
  board.notices("step", []);
  await board.flush();
  expect(status).toMatchObject({ reason: "CheckpointDamaged", message: "step-7 was set aside." });
  board.notices("trainer", []);
  await board.flush();
  expect(status).toMatchObject({ reason: "Training", message: "" });
});

it("the same notice with every progress is one write", async () => {
  const { board, writes } = openBoard();
  for (let i = 0; i < 100; i++) board.notices("step", [full]);
  for (let i = 0; i < 100; i++) board.notices("trainer", []);
  await board.flush();
  expect(writes()).toBe(2);
});

it("a job that does not run keeps its own reason", async () => {
  const { board, status } = openBoard(JobPhase.SUSPENDED);
  board.notices("step", [full]);
  await board.flush();
  expect(status).toMatchObject({ reason: "Training", message: "" });
});

it("counts what a step dropped as voided, once, whoever did the step", async () => {
  const { board } = openBoard();
  const dropped = [{ episodeId: "j/g0/s1", reason: "Unreadable" }];
  const done = create(StepRecordSchema, { step: 0, episodes: 1, voided: 2, dropped });
  const manifest = toBinary(
    BatchManifestSchema,
    create(BatchManifestSchema, {
      entries: [{ episodeId: "j/g0/s0" }, { episodeId: "j/g0/s1" }],
      voided: [{ episodeId: "j/g0/s2" }],
    }),
  );
  const count = () => board.settled(1, () => Promise.resolve(manifest));
  expect(await count()).toEqual({ trained: 2, voided: 1, baseline: 0 });
  board.recorded([done]);
  await board.step(done);
  expect(await count()).toEqual({ trained: 1, voided: 2, baseline: 0 });
});

it("counts a step by its record, and reads its manifest once while it has none", async () => {
  const { board } = openBoard();
  const bytes = (entries: object[]) => toBinary(BatchManifestSchema, create(BatchManifestSchema, { entries }));
  const read: number[] = [];
  const manifest = (step: number) => {
    read.push(step);
    return Promise.resolve(step < 3 ? bytes([{}, {}]) : undefined);
  };
  board.recorded([0, 1].map((step) => create(StepRecordSchema, { step, episodes: 5, voided: 1 })));
  for (let i = 0; i < 2; i++) expect(await board.settled(4, manifest)).toEqual({ trained: 12, voided: 2, baseline: 0 });
  expect(read).toEqual([2, 3, 3]);
});
