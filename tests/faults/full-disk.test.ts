// SPDX-License-Identifier: Apache-2.0
// The data folder's disk fills up while a job trains: nobody dies, the status says why it stands still, and it goes on.
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { canMountVolumes, smallVolume } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { openLocalRuntime, ownModel, smallJob } from "../support/local-runtime.ts";
import { tinyModel } from "../support/tiny-model.ts";
import { atStep, crashesOf, endsWell, statusOf, told } from "../support/watched-jobs.ts";

const FULL_MS = 20_000;
const TOLD_WITHIN_MS = 20_000;
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
      await atStep(jobs, JOB, 2);
      const before = crashesOf(runtime);

      volume.fill();
      const filledAt = performance.now();
      const { reason, message } = await told(jobs, JOB, /^(DiskFull|NatsRefusesWrites): .*no space left on/i);
      expect(performance.now() - filledAt).toBeLessThan(TOLD_WITHIN_MS);
      expect(message, "which disk").toContain(volume.path);
      const said = new Set([reason]);
      while (performance.now() < filledAt + FULL_MS) {
        const status = await statusOf(jobs, JOB);
        if (status) said.add(status.reason);
        await delay(500);
      }
      const step = (await statusOf(jobs, JOB))?.step ?? 0;

      volume.free();
      await atStep(jobs, JOB, Math.min(step + 2, STEPS));
      await endsWell(runtime, jobs, JOB, STEPS);
      const { nats: restarts = 0, ...others } = crashesOf(runtime);
      const { nats: restartsBefore = 0, ...othersBefore } = before;
      expect(others, "nobody died").toEqual(othersBefore);
      if (said.has("NatsRefusesWrites"))
        expect(restarts, "nats-server was started again").toBeGreaterThan(restartsBefore);
    },
    400_000,
  );
});
