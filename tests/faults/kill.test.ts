// SPDX-License-Identifier: Apache-2.0
// kill -9 of each process while training: it comes back, training goes on to its last step, and the books balance.
import { fromJson } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const STEPS = 6;
const SERVICES = ["orchestrator", "env-runner", "gateway", "engine-0", "trainer", "controller", "nats"];

describe("kill -9 while training", () => {
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

  it.each(SERVICES)(
    "%s: training ends, nothing lost, duplicated, stale or unlabelled",
    async (service) => {
      const name = `kill-${service}`;
      await jobs.submitJob({ spec: fromJson(JobSpecSchema, smallJob(name, runtime.model, { steps: STEPS, lag: 1 })) });
      await waitFor(async () => (await stepOf(jobs, name)) >= 2, { timeoutMs: 60_000 });
      const before = infoOf(runtime, service);
      process.kill(before.pid ?? 0, "SIGKILL");
      await waitFor(() => infoOf(runtime, service).crashes > before.crashes, { timeoutMs: 30_000 });
      await waitFor(async () => (await phaseOf(jobs, name)) === JobPhase.SUCCEEDED, { timeoutMs: 120_000 });
      expect(await stepOf(jobs, name)).toBe(STEPS);
      const audit = runtime.whet("jobs", "audit", name);
      expect(audit.json, audit.output).toMatchObject({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 });
      expect(audit.status).toBe(0);
    },
    240_000,
  );
});

function infoOf(runtime: LocalRuntime, service: string) {
  const info = runtime.services().find(({ name }) => name === service);
  if (!info) throw new Error(`no service ${service}`);
  return info;
}

/** A call may meet the very process that was killed; it is asked again. */
async function stepOf(jobs: RpcClient<typeof JobService>, name: string): Promise<number> {
  const answer = await jobs.getJob({ name }).catch(() => undefined);
  return answer?.job?.status?.step ?? 0;
}

async function phaseOf(jobs: RpcClient<typeof JobService>, name: string): Promise<JobPhase> {
  const answer = await jobs.getJob({ name }).catch(() => undefined);
  const status = answer?.job?.status;
  if (status?.phase === JobPhase.FAILED) throw new Error(`job ${name} failed: ${status.message}`);
  return status?.phase ?? JobPhase.UNSPECIFIED;
}
