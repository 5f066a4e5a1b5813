// SPDX-License-Identifier: Apache-2.0
// PPO with a critic, through the real services: a tiny model is taught the form of a move, then trains on FrozenLake.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { type JobStatus, JobPhase, JobService, JobSpecSchema, type StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { ppo } from "@whetstone/sdk";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeDemonstrations } from "../../examples/frozenlake/src/demonstrations.ts";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";

const DEMONSTRATIONS = 512;
const FROZEN_LAKE: JsonObject = {
  agent: { kind: "frozenlake", args: { variant: "compact" } },
  environment: {
    kind: "frozenlake",
    args: { size: 4, frozenProbability: 0.9, observation: "compact", maxSteps: 6, stepDiscount: 0.9 },
  },
  sampling: { temperature: 1, maxTokens: 2 },
  limits: { maxSteps: 6, maxPromptTokens: 64, maxResponseTokens: 8, enforcePromptLimitEachStep: true },
};

describe("PPO", () => {
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;

  async function trained(name: string, job: JsonObject): Promise<JobStatus> {
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, { name, ...FROZEN_LAKE, ...job }) });
    const get = async () => (await jobs.getJob({ name })).job?.status;
    const over = [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED];
    await waitFor(async () => over.includes((await get())?.phase ?? 0), { timeoutMs: 150_000 });
    const status = await get();
    expect(status?.phase, status?.message).toBe(JobPhase.SUCCEEDED);
    return status as JobStatus;
  }

  async function stepsOf(name: string): Promise<StepRecord[]> {
    const steps: StepRecord[] = [];
    for await (const { event } of jobs.streamMetrics({ name })) if (event.case === "step") steps.push(event.value);
    return steps;
  }

  beforeAll(async () => {
    runtime = await startLocalRuntime();
    jobs = createClient(JobService, runtime.address("controller"));
  }, 120_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
  });

  it("trains policy and critic, and every episode is accounted for", async () => {
    const jsonl = join(runtime.data, "demonstrations.jsonl");
    writeDemonstrations(jsonl, 1, DEMONSTRATIONS);
    const taught = await trained("form", {
      model: { path: runtime.model },
      train: { jsonl },
      algorithm: { sft: { optimizer: { learningRate: 0.002 }, batching: { miniBatches: 16, epochs: 6 } } },
      loop: { steps: 1, batchGroups: DEMONSTRATIONS },
    });
    const critic = { optimizer: { learningRate: 0.003 } };
    const algorithm = ppo({ groupSize: 4, learningRate: 0.0005, miniBatches: 4, epochs: 2, critic });
    const status = await trained("ppo", {
      model: { path: taught.modelPath },
      train: { seeds: { first: "100000", count: "1000" } },
      algorithm: algorithm.document as JsonObject,
      loop: { steps: 3, batchGroups: 24 },
    });
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 288 };
    expect(runtime.whet("jobs", "audit", "ppo").json).toMatchObject(sound);
    const [first, ...others] = (await stepsOf("ppo")).map(({ metrics }) => metrics);
    expect(others).toHaveLength(2);
    expect(first).toMatchObject({ "values/mean": 0, explained_variance: 0 });
    expect(first?.["returns/mean"]).toBeGreaterThan(0);
    for (const metrics of others) {
      expect(metrics["values/mean"]).not.toBe(0);
      expect(metrics["critic_grad_norm"]).toBeGreaterThan(0);
      expect(metrics["grad_norm"]).toBeGreaterThan(0);
    }
    expect(readdirSync(status.modelPath).filter((file) => file.includes("critic"))).toEqual([]);
    const checkpoint = join(status.modelPath, "../../checkpoints/step-3");
    for (const file of ["critic.safetensors", "critic-optimizer.pt"])
      expect(existsSync(join(checkpoint, file)), file).toBe(true);
  }, 300_000);
});
