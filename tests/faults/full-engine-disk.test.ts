// SPDX-License-Identifier: Apache-2.0
// The disk where an engine keeps fetched weights fills up while a job trains: the engine serves on what it has, the status
// says which disk it is, and training goes on by itself once there is space.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { canMountVolumes, smallVolume } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { startLocalRuntime } from "../support/local-runtime.ts";
import { atStep, changingJob, crashesOf, endsWell, statusOf, told } from "../support/watched-jobs.ts";

const JOB = "engine-disk";
/** Done in seconds, and long enough for a fault in the middle. */
const STEPS = 40;
const TOLD_WITHIN_MS = 10_000;
/** Longer than the controller waits between two attempts at an engine. */
const FULL_MS = 15_000;
const mounts = canMountVolumes();

describe(`an engine's full disk${mounts ? "" : " (skipped: no file system can be mounted here)"}`, () => {
  it.skipIf(!mounts)(
    "is said within seconds, kills nobody, and is over once there is space",
    async () => {
      using volume = smallVolume(64);
      const kept = join(volume.path, "weights");
      await using runtime = await startLocalRuntime("--weights-dir", kept);
      await using jobs = createClient(JobService, runtime.address("controller"));
      await jobs.submitJob({ spec: fromJson(JobSpecSchema, changingJob(JOB, runtime.model, STEPS, { stream: {} })) });
      await atStep(jobs, JOB, 2);
      expect(readdirSync(join(kept, "engine-0/tensors")).length, "the engine keeps what it fetches").toBeGreaterThan(0);
      const before = crashesOf(runtime);

      volume.fill();
      const filledAt = performance.now();
      const { message, step } = await told(jobs, JOB, /^EnginesBehind: .*No space left on device/);
      expect(performance.now() - filledAt).toBeLessThan(TOLD_WITHIN_MS);
      expect(message, "which disk").toContain(join(kept, "engine-0"));
      await delay(FULL_MS);
      const standing = await statusOf(jobs, JOB);
      expect(standing?.reason, "it is said for as long as it is so").toBe("EnginesBehind");
      expect(standing?.step, "no token of an older version than the job allows").toBeLessThanOrEqual(step + 1);

      volume.free();
      await endsWell(runtime, jobs, JOB, STEPS);
      expect(crashesOf(runtime), "nobody died").toEqual(before);
    },
    400_000,
  );
});
