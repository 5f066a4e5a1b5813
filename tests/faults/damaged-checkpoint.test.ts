// SPDX-License-Identifier: Apache-2.0
// The trainer is killed while its newest checkpoint is damaged: it goes on from the one before, and the status says so.
import { closeSync, openSync, readdirSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { type JobStatus, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const STEPS = 8;

describe("the newest checkpoint is damaged while the trainer is away", () => {
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;

  beforeAll(async () => {
    runtime = await startLocalRuntime();
    jobs = createClient(JobService, runtime.address("controller"));
  }, 120_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
  });

  it.each([
    ["optimizer-gone", "optimizer.pt is gone", (path: string) => rmSync(path), /optimizer\.pt is missing/],
    ["optimizer-flipped", "a byte of optimizer.pt is another", flipByte, /optimizer\.pt: content differs/],
  ] as const)(
    "%s: %s",
    async (name, _what, damage, fault) => {
      const spec = fromJson(JobSpecSchema, smallJob(name, runtime.model, { steps: STEPS, lag: 1 }));
      const { job } = await jobs.submitJob({ spec });
      await waitFor(async () => ((await statusOf(jobs, name))?.step ?? 0) >= 3, { timeoutMs: 120_000 });
      const checkpoints = join(runtime.data, "runs", job?.uid ?? "", "checkpoints");
      const trainer = runtime.services().find((service) => service.name === "trainer");
      const pid = trainer?.pid ?? 0;
      process.kill(pid, "SIGSTOP"); // Else it may write a newer one between the damage and its end.
      const newest = newestOf(checkpoints);
      damage(join(checkpoints, `step-${newest}`, "optimizer.pt"));
      process.kill(pid, "SIGKILL");

      const told = await waitFor(
        async () => {
          const status = await statusOf(jobs, name);
          return status?.reason === "CheckpointDamaged" && status;
        },
        { timeoutMs: 120_000, what: "the reason CheckpointDamaged" },
      );
      expect(told.message).toContain(`The checkpoint of step ${newest} is damaged`);
      expect(told.message).toContain(`Training goes on from that of step ${newest - 1}`);
      expect(told.message).toMatch(fault);
      await waitFor(async () => (await statusOf(jobs, name))?.phase === JobPhase.SUCCEEDED, { timeoutMs: 120_000 });
      expect(await statusOf(jobs, name)).toMatchObject({ step: STEPS, reason: "Finished", message: "" });
      expect(readdirSync(checkpoints)).toContain(`damaged-step-${newest}`);
      const audit = runtime.whet("jobs", "audit", name);
      expect(audit.json, audit.output).toMatchObject({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 });
    },
    400_000,
  );
});

function newestOf(checkpoints: string): number {
  return Math.max(
    ...readdirSync(checkpoints)
      .flatMap((name) => /^step-(\d+)$/.exec(name)?.[1] ?? [])
      .map(Number),
  );
}

function flipByte(path: string): void {
  const file = openSync(path, "r+");
  try {
    const byte = Buffer.alloc(1);
    readSync(file, byte, 0, 1, 1000);
    writeSync(file, Buffer.of((byte[0] ?? 0) ^ 1), 0, 1, 1000);
  } finally {
    closeSync(file);
  }
}

/** Undefined where nobody answers; throws once the job has failed. */
async function statusOf(jobs: RpcClient<typeof JobService>, name: string): Promise<JobStatus | undefined> {
  const answer = await jobs.getJob({ name }).catch(() => undefined);
  const status = answer?.job?.status;
  if (status?.phase === JobPhase.FAILED) throw new Error(`the job failed: ${status.reason}: ${status.message}`);
  return status;
}
