// SPDX-License-Identifier: Apache-2.0
// A job's life against the real services: submitted twice, suspended, resumed, cancelled, evaluated only, trained by SFT.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { type Job, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { Purpose } from "@whetstone/proto/types/v1/types";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

describe("a job's life", () => {
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;
  const folder = mkdtempSync(join(tmpdir(), "whetstone-life-"));

  beforeAll(async () => {
    runtime = await startLocalRuntime();
    jobs = createClient(JobService, runtime.address("controller"));
  }, 120_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const submit = (job: JsonObject) => jobs.submitJob({ spec: fromJson(JobSpecSchema, job) });
  const get = async (name: string): Promise<Job> => (await jobs.getJob({ name })).job as Job;
  const reaches = (name: string, phase: JobPhase): Promise<unknown> =>
    waitFor(async () => (await get(name)).status?.phase === phase, { timeoutMs: 60_000 });
  const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };

  it("submitted twice is one job; with another spec the name is taken", async () => {
    const job = smallJob("twice", runtime.model, { steps: 1 });
    expect((await submit(job)).created).toBe(true);
    expect((await submit(job)).created).toBe(false);
    await expect(submit({ ...job, seed: "4" })).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
    await reaches("twice", JobPhase.SUCCEEDED);
  }, 90_000);

  it("leaves episodes that can be exported, and replayed without a difference", () => {
    const file = join(folder, "twice.jsonl");
    expect(runtime.whet("episodes", "export", "twice", "--jsonl", file).json).toMatchObject({ episodes: 32 });
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    const episodes = lines.map((line) => JSON.parse(line) as { id: string; trainedInStep?: number; calls: object[] });
    expect(episodes).toHaveLength(32);
    expect(episodes.every(({ trainedInStep, calls }) => trainedInStep === 0 && calls.length > 0)).toBe(true);
    const replayed = runtime.whet("episodes", "replay", "twice", "--last", "4");
    expect(replayed.output.trim().split("\n")).toHaveLength(4);
    expect(replayed).toMatchObject({ status: 0 });
    expect(replayed.output).not.toContain('"same":false');
  });

  it("its books, counted by the controller, are those that lie in streams and checkpoint", async () => {
    const counted = await jobs.auditJob({ name: "twice" });
    expect(counted).toMatchObject({ dispatched: 32n, trained: 32n, lost: 0n, duplicated: 0n, checkedEpisodes: 32n });
    process.env["WHETSTONE_ENDPOINT"] = runtime.address("controller");
    const remote = runtime.whet("jobs", "audit", "twice").json;
    delete process.env["WHETSTONE_ENDPOINT"];
    expect(remote).toEqual(runtime.whet("jobs", "audit", "twice").json);
    await expect(jobs.auditJob({ name: "nobody" })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("suspended it frees the engines and keeps its books; resumed it goes on to its last step", async () => {
    await submit(smallJob("paused", runtime.model, { steps: 1000, lag: 1 }));
    await waitFor(async () => ((await get("paused")).status?.step ?? 0) >= 2, { timeoutMs: 60_000 });
    await jobs.suspendJob({ name: "paused" });
    await reaches("paused", JobPhase.SUSPENDED);
    const { step = 0 } = (await get("paused")).status ?? {};
    expect(runtime.whet("jobs", "audit", "paused").json).toMatchObject({
      lost: 0,
      duplicated: 0,
      stale: 0,
      unlabelled: 0,
    });
    await jobs.updateJob({ name: "paused", steps: step + 3 });
    await jobs.resumeJob({ name: "paused" });
    await reaches("paused", JobPhase.SUCCEEDED);
    expect((await get("paused")).status?.step).toBe(step + 3);
    expect(runtime.whet("jobs", "audit", "paused").json).toMatchObject(sound);
  }, 120_000);

  it("with ReMax it counts a greedy episode beside each group apart, over a kill -9 of the controller", async () => {
    const job = smallJob("remax", runtime.model, { steps: 4, lag: 1 });
    const algorithm = { policyGradient: { groupSize: 1, advantage: "ADVANTAGE_ESTIMATOR_REMAX" } };
    await submit({ ...job, algorithm });
    await waitFor(async () => ((await get("remax")).status?.step ?? 0) >= 1, { timeoutMs: 60_000 });
    const controller = runtime.services().find(({ name }) => name === "controller");
    process.kill(controller?.pid ?? 0, "SIGKILL");
    await waitFor(async () => (await get("remax").catch(() => undefined))?.status?.phase === JobPhase.SUCCEEDED, {
      timeoutMs: 90_000,
    });
    const counts = { dispatched: 64, trained: 32, voided: 0, baseline: 32 };
    expect(runtime.whet("jobs", "audit", "remax").json).toMatchObject({ ...sound, ...counts });
    const { status } = await get("remax");
    expect(status?.episodes).toMatchObject({ dispatched: 64n, trained: 32n, voided: 0n, baseline: 32n, inFlight: 0n });
    expect(status?.lastStep).toMatchObject({ episodes: 8, baselines: 8, metrics: { "baseline/episodes": 8 } });
    const { episode, trainedInStep } = await jobs.getEpisode({ episodeId: "remax/b0/s0" });
    expect([episode?.purpose, trainedInStep]).toEqual([Purpose.BASELINE, undefined]);
    expect(episode?.calls.every(({ sampling }) => sampling?.temperature === 0)).toBe(true);
  }, 180_000);

  it("with dynamic sampling it voids groups without a signal, and fails when there are no others", async () => {
    const policyGradient = { groupSize: 2, dynamicSampling: { maxReplacements: 3 } };
    // Four steps never reach the goal: every reward is 0.
    await submit({ ...smallJob("flat", runtime.model, { groups: 2 }), algorithm: { policyGradient } });
    await reaches("flat", JobPhase.FAILED);
    const { status } = await get("flat");
    expect([status?.reason, status?.lastStep?.metrics["groups_filtered"]]).toEqual(["NothingTrained", 5]);
    const counts = { dispatched: 3 * (2 + 3) * 2, trained: 0, voided: 3 * (2 + 3) * 2 };
    expect(runtime.whet("jobs", "audit", "flat").json).toMatchObject({ ...sound, ...counts });
  }, 120_000);

  it("cancelled it voids what was in flight, and the books balance (I2)", async () => {
    await submit(smallJob("cancelled", runtime.model, { steps: 500, lag: 1 }));
    await waitFor(async () => ((await get("cancelled")).status?.step ?? 0) >= 1, { timeoutMs: 60_000 });
    await jobs.cancelJob({ name: "cancelled" });
    await reaches("cancelled", JobPhase.CANCELLED);
    const counts = (await get("cancelled")).status?.episodes;
    expect(counts?.inFlight).toBe(0n);
    expect(counts?.dispatched).toBe((counts?.trained ?? 0n) + (counts?.voided ?? 0n));
    expect(runtime.whet("jobs", "audit", "cancelled").json).toMatchObject(sound);
  }, 90_000);

  it("without steps it only evaluates, with pass@k", async () => {
    const { algorithm: _a, train: _t, ...job } = smallJob("judged", runtime.model);
    const dataset = { seeds: { first: "5000", count: "6" } };
    await submit({ ...job, loop: { steps: 0 }, validation: { dataset, variants: [{ name: "sampled", attempts: 4 }] } });
    await reaches("judged", JobPhase.SUCCEEDED);
    const [result] = (await get("judged")).status?.validations ?? [];
    expect(result).toMatchObject({ variant: "sampled", tasks: 6, episodes: 24, voided: 0 });
    expect(Object.keys(result?.passAtK ?? {})).toEqual(["1", "2", "4"]);
  }, 90_000);

  it("SFT goes through the same streams, ledger and audit, and its episodes can be shown", async () => {
    const lines = Array.from({ length: 16 }, (_, i) =>
      JSON.stringify({
        id: `d${i}`,
        demonstration: [
          { role: "user", content: "P_\n_G" },
          { role: "assistant", content: "R" },
        ],
      }),
    );
    writeFileSync(join(folder, "demonstrations.jsonl"), lines.join("\n"));
    const { agent: _a, environment: _e, ...job } = smallJob("taught", runtime.model, { steps: 2 });
    const sft = { optimizer: { learningRate: 0.003 }, batching: { epochs: 4 } };
    await submit({ ...job, train: { jsonl: join(folder, "demonstrations.jsonl") }, algorithm: { sft } });
    await reaches("taught", JobPhase.SUCCEEDED);
    expect(runtime.whet("jobs", "audit", "taught").json).toMatchObject({ ...sound, trained: 16 });
    const { episode, trainedInStep } = await jobs.getEpisode({ episodeId: "taught/g3/s0" });
    expect([episode?.purpose, episode?.calls[0]?.text, trainedInStep]).toEqual([Purpose.DEMONSTRATION, "R", 0]);
  }, 90_000);
});
