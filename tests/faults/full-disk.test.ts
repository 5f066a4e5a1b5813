// SPDX-License-Identifier: Apache-2.0
// The data folder's disk fills up while a job trains: nobody dies, the status says why it stands still, and it goes on.
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { type Job, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { canMountVolumes, smallVolume, waitFor } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { type LocalRuntime, openLocalRuntime, ownModel, smallJob } from "../support/local-runtime.ts";
import { tinyModel } from "../support/tiny-model.ts";

const FULL_MS = 20_000;
const JOB = "fd";
/** On a quiet machine ten are done in a second, and the disk is to be full long before the last. */
const STEPS = 80;
const mounts = canMountVolumes();

describe(`a full disk while training${mounts ? "" : " (skipped: no file system can be mounted here)"}`, () => {
  it.skipIf(!mounts)(
    "is said within seconds, kills nobody, and is over once there is space",
    async () => {
      using volume = smallVolume(384);
      const data = join(volume.path, "data");
      const model = tinyModel(ownModel(data));
      await using runtime = await openLocalRuntime({ data, model });
      await using jobs = createClient(JobService, runtime.address("controller"));
      const spec = fromJson(JobSpecSchema, smallJob(JOB, model, { steps: STEPS, lag: 1 }));
      await jobs.submitJob({ spec });
      await waitFor(async () => ((await look(jobs))?.status?.step ?? 0) >= 2, { timeoutMs: 120_000, intervalMs: 50 });
      const before = crashes(runtime);

      volume.fill();
      const filledAt = performance.now();
      const told = await waitFor(async () => standing(await look(jobs)), { timeoutMs: 20_000, what: "a reason" });
      expect(told.message).toMatch(/no space left on/i);
      expect(told.message, "which disk").toContain(volume.path);
      const said = new Set([told.reason]);
      while (performance.now() < filledAt + FULL_MS) {
        const job = await look(jobs);
        if (job?.status) said.add(job.status.reason);
        await delay(500);
      }
      const step = (await look(jobs))?.status?.step ?? 0;

      volume.free();
      await waitFor(async () => ((await look(jobs))?.status?.step ?? 0) >= Math.min(step + 2, STEPS), {
        timeoutMs: 120_000,
        intervalMs: 200,
        what: "two more steps",
      });
      await waitFor(async () => (await look(jobs))?.status?.phase === JobPhase.SUCCEEDED, { timeoutMs: 120_000 });
      const { nats: restarts = 0, ...others } = crashes(runtime);
      const { nats: restartsBefore = 0, ...othersBefore } = before;
      expect(others, "nobody died").toEqual(othersBefore);
      if (said.has("NatsRefusesWrites"))
        expect(restarts, "nats-server was started again").toBeGreaterThan(restartsBefore);
      const audit = runtime.whet("jobs", "audit", JOB);
      expect(audit.json, audit.output).toMatchObject({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 });
    },
    400_000,
  );
});

/** Undefined where nobody answers; throws once the job has failed. */
async function look(jobs: RpcClient<typeof JobService>): Promise<Job | undefined> {
  const answer = await jobs.getJob({ name: JOB }, { deadlineMs: 5_000 }).catch(() => undefined);
  const status = answer?.job?.status;
  if (status?.phase === JobPhase.FAILED) throw new Error(`the job failed: ${status.reason}: ${status.message}`);
  return answer?.job;
}

function standing(job: Job | undefined): { reason: string; message: string } | undefined {
  const { reason = "", message = "" } = job?.status ?? {};
  return ["DiskFull", "NatsRefusesWrites"].includes(reason) ? { reason, message } : undefined;
}

function crashes(runtime: LocalRuntime): Record<string, number> {
  return Object.fromEntries(runtime.services().map(({ name, crashes }) => [name, crashes]));
}
