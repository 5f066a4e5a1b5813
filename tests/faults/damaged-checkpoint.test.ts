// SPDX-License-Identifier: Apache-2.0
// The trainer is killed while its newest checkpoint is damaged: it goes on from the one before, and the status says so.
import { closeSync, openSync, readdirSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";
import { atStep, endsWell, told } from "../support/watched-jobs.ts";

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
      await atStep(jobs, name, 3);
      const checkpoints = join(runtime.data, "runs", job?.uid ?? "", "checkpoints");
      const trainer = runtime.services().find((service) => service.name === "trainer");
      const pid = trainer?.pid ?? 0;
      process.kill(pid, "SIGSTOP"); // Else it may write a newer one between the damage and its end.
      const newest = newestOf(checkpoints);
      damage(join(checkpoints, `step-${newest}`, "optimizer.pt"));
      process.kill(pid, "SIGKILL");

      const { message } = await told(jobs, name, /^CheckpointDamaged: /);
      expect(message).toContain(`The checkpoint of step ${newest} is damaged`);
      expect(message).toContain(`Training goes on from that of step ${newest - 1}`);
      expect(message).toMatch(fault);
      await endsWell(runtime, jobs, name, STEPS);
      expect(readdirSync(checkpoints)).toContain(`damaged-step-${newest}`);
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
