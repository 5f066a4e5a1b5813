// SPDX-License-Identifier: Apache-2.0
// Jobs of a local runtime that are looked at while something is broken.
import type { JsonObject } from "@bufbuild/protobuf";
import { type JobStatus, JobPhase, type JobService } from "@whetstone/proto/jobs/v1/jobs";
import type { RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { expect } from "vitest";
import { type LocalRuntime, smallJob } from "./local-runtime.ts";

type Jobs = RpcClient<typeof JobService>;

/** Of `smallJob`: groups, and members of each. */
const EPISODES_PER_STEP = 8 * 4;
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };

/** Undefined where nobody answers; throws once the job has failed. */
export async function statusOf(jobs: Jobs, name: string): Promise<JobStatus | undefined> {
  const answer = await jobs.getJob({ name }, { deadlineMs: 5_000 }).catch(() => undefined);
  const status = answer?.job?.status;
  if (status?.phase === JobPhase.FAILED) throw new Error(`the job failed: ${status.reason}: ${status.message}`);
  return status;
}

export function atStep(jobs: Jobs, name: string, step: number): Promise<unknown> {
  const isThere = async (): Promise<boolean> => ((await statusOf(jobs, name))?.step ?? 0) >= step;
  return waitFor(isThere, { timeoutMs: 120_000, intervalMs: 50, what: `step ${step}` });
}

/** The status once its reason and message fit. */
export function told(jobs: Jobs, name: string, pattern: RegExp): Promise<JobStatus> {
  const fitting = async (): Promise<JobStatus | false | undefined> => {
    const status = await statusOf(jobs, name);
    return status && pattern.test(`${status.reason}: ${status.message}`) && status;
  };
  return waitFor(fitting, { timeoutMs: 60_000, intervalMs: 50, what: `a status like ${pattern}` });
}

/** All of its steps are done, and every episode is accounted for. */
export async function endsWell(runtime: LocalRuntime, jobs: Jobs, name: string, steps: number): Promise<void> {
  await waitFor(async () => (await statusOf(jobs, name))?.phase === JobPhase.SUCCEEDED, { timeoutMs: 180_000 });
  expect(await statusOf(jobs, name)).toMatchObject({ step: steps, reason: "Finished", message: "" });
  const audit = runtime.whet("jobs", "audit", name);
  expect(audit.json, audit.output).toMatchObject({ ...SOUND, trained: steps * EPISODES_PER_STEP });
}

/** How often each service has died. */
export function crashesOf(runtime: LocalRuntime): Record<string, number> {
  return Object.fromEntries(runtime.services().map(({ name, crashes }) => [name, crashes]));
}

/** A `smallJob` whose entropy bonus moves all weights at each step, whatever the rewards: every tensor of a version is fetched. */
export function changingJob(name: string, model: string, steps: number, transport: JsonObject): JsonObject {
  const algorithm = {
    policyGradient: { groupSize: 4, entropyCoefficient: 0.01, optimizer: { learningRate: 0.001 } },
  };
  return { ...smallJob(name, model, { steps, lag: 1 }), algorithm, weights: { transport } };
}
