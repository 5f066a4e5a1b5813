// SPDX-License-Identifier: Apache-2.0
// Weights that engines fetch from the trainer over HTTP, through the real services: every step samples from what the one
// before it made, in bfloat16 on the way, while float32 is trained.
import { fromJson } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema, type StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

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

it("refuses a job for an object store where trainer and engines have none, by path", async () => {
  const spec = { ...smallJob("stored", runtime.model), weights: { transport: { objectStore: {} } } };
  await expect(jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) })).rejects.toThrow(
    /weights\.transport\.objectStore: the trainer has no object store: start it with --object-store/,
  );
});

it("trains with streamed weights, and every episode is accounted for", async () => {
  const spec = fromJson(JobSpecSchema, {
    name: "streamed",
    model: { path: runtime.model },
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment: { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 6 } },
    sampling: { temperature: 1, maxTokens: 2 },
    limits: { maxSteps: 6, maxPromptTokens: 64, maxResponseTokens: 8, enforcePromptLimitEachStep: true },
    train: { seeds: { first: "100000", count: "1000" } },
    algorithm: { policyGradient: { groupSize: 4, optimizer: { learningRate: 0.001 } } },
    loop: { steps: 3, batchGroups: 8 },
    weights: { dtype: "WEIGHTS_DTYPE_BFLOAT16", shardMib: 1, transport: { stream: {} } },
  });
  await jobs.submitJob({ spec });
  const get = async () => (await jobs.getJob({ name: "streamed" })).job?.status;
  const over = [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED];
  await waitFor(async () => over.includes((await get())?.phase ?? 0), { timeoutMs: 150_000 });
  const status = await get();
  expect(status?.phase, status?.message).toBe(JobPhase.SUCCEEDED);
  const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 96 };
  expect(runtime.whet("jobs", "audit", "streamed").json).toMatchObject(sound);
  const text = await (await fetch(`http://${runtime.address("engine-0", "http")}/metrics`)).text();
  expect(Number(/whetstone_engine_weight_transfer_bytes_total\{.*\} (\d+)/.exec(text)?.[1])).toBeGreaterThan(100_000);
  const steps: StepRecord[] = [];
  for await (const { event } of jobs.streamMetrics({ name: "streamed" }))
    if (event.case === "step") steps.push(event.value);
  // What bfloat16 rounds off, and no more: the engines serve the versions that they say.
  for (const { metrics } of steps.slice(1)) {
    expect(metrics["logprob_diff/max"]).toBeGreaterThan(1e-6);
    expect(metrics["logprob_diff/max"]).toBeLessThan(0.05);
  }
}, 180_000);
