// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { DroppedEpisodeSchema, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { type Notice, NoticeSchema, TrainerService, type TrainProgress } from "@whetstone/proto/trainer/v1/trainer";
import { createClient, implement, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { expect, it } from "vitest";
import { TrainerClient } from "./trainer-client.ts";

/** A trainer whose first attempt at step 3 ends with `failure`; asked after that, it loads, and has done two steps. */
async function startTrainer(failure: Error) {
  let isLoading = true;
  const calls: string[] = [];
  const server = await startServer({
    host: "127.0.0.1",
    port: 0,
    logger: silentLogger,
    services: [
      implement(TrainerService, {
        configure: () => {
          if (calls.includes("step 3") && isLoading) {
            isLoading = false;
            return Promise.resolve({ progress: { phase: "loading", share: 0.5 } });
          }
          calls.push("configure");
          return Promise.resolve({ step: 2, weights: { policyVersion: 2n } });
        },
        async *trainStep({ manifest, dropped }) {
          const step = manifest[0] ?? 0;
          const isFirst = !calls.includes("step 3");
          calls.push(`step ${step}`);
          if (dropped[0]?.episodeId !== `j/g${step}/s0`) throw new Error("not told what the step dropped");
          yield { kind: { case: "progress" as const, value: { phase: "training", share: 0.5 } } };
          if (isFirst) throw failure;
          yield { kind: { case: "result" as const, value: { step } } };
        },
      }),
    ],
  });
  return { server, calls };
}

async function trainStepThree(
  failure: Error,
  onProgress: (progress: TrainProgress) => void = () => undefined,
): Promise<{ calls: string[]; outcome: unknown }> {
  const { server: started, calls } = await startTrainer(failure);
  await using server = started;
  await using client = createClient(TrainerService, server.address);
  const trainer = new TrainerClient({ client, runPathOf: (uid) => `/runs/${uid}`, logger: silentLogger });
  const signal = AbortSignal.timeout(10_000);
  const dropped = (step: number) => Promise.resolve([create(DroppedEpisodeSchema, { episodeId: `j/g${step}/s0` })]);
  const ledger = { epoch: 1n, manifest: (step: number) => Promise.resolve(Uint8Array.of(step)), dropped };
  await trainer.configure({ spec: create(JobSpecSchema), uid: "u", ledger }, signal);
  const outcome = await trainer.trainStep(3, onProgress, signal).catch((error: unknown) => error);
  return { calls, outcome };
}

it.each(["UNAVAILABLE", "CANCELLED"] as const)("a step that ends with %s is asked for again", async (code) => {
  const { calls, outcome } = await trainStepThree(new WhetstoneError(code, "the trainer is ending"));
  expect(outcome).toMatchObject({ step: 3 });
  expect(calls).toEqual(["configure", "step 3", "configure", "step 2", "step 3"]);
});

it("a trainer that works for another job is not fought for", async () => {
  const failure = new WhetstoneError("CONFLICT", "step 3 was stopped: the trainer was given another job");
  expect(await trainStepThree(failure)).toMatchObject({
    outcome: { code: "CONFLICT" },
    calls: ["configure", "step 3"],
  });
});

it.each(["DiskFull", "ObjectStoreFull", "ObjectStoreFailing"])(
  "a trainer that says %s when it starts again waits as a step does, so that it can be left",
  async (reason) => {
    const failure = new WhetstoneError("UNAVAILABLE", "no space", { context: { reason } });
    const seen: string[] = [];
    await trainStepThree(failure, ({ phase, notices }) => seen.push(`${phase} ${notices[0]?.reason ?? ""}`));
    expect(seen).toContain(`waiting ${reason}`);
  },
);

it("why a rank of the trainer was lost is said until the step is done again", async () => {
  const message = "a rank of the trainer ended: killed. The step begins anew.";
  const failure = new WhetstoneError("UNAVAILABLE", message, { context: { reason: "RankLost" } });
  const seen: string[] = [];
  await trainStepThree(failure, ({ notices }) => seen.push(notices.map(({ reason }) => reason).join("+")));
  expect(seen).toEqual(["", "RankLost", "RankLost+TrainerConfiguring", "RankLost", "RankLost"]);
});

it("a trainer that loads for long when it starts again waits as a step does, so that it can be left", async () => {
  const failure = new WhetstoneError("UNAVAILABLE", "the trainer is ending");
  const seen: string[] = [];
  await trainStepThree(failure, ({ phase, notices }) => seen.push(`${phase} ${notices[0]?.reason ?? ""}`));
  expect(seen).toContain("waiting TrainerConfiguring");
});

/** A trainer that loads: it answers each Configure with the next share, the last of them for ever or until it is ready. */
async function startLoadingTrainer(shares: readonly number[], endsReady: boolean) {
  const asked = { configure: 0 };
  const server = await startServer({
    host: "127.0.0.1",
    port: 0,
    logger: silentLogger,
    services: [
      implement(TrainerService, {
        configure: () => {
          const share = shares[asked.configure++] ?? shares.at(-1) ?? 0;
          if (endsReady && asked.configure > shares.length)
            return Promise.resolve({ step: 1, weights: { policyVersion: 1n }, notices: [DAMAGED] });
          return Promise.resolve({ progress: { phase: share < 0 ? "restoring" : "loading", share: Math.abs(share) } });
        },
      }),
    ],
  });
  return { server, asked };
}

const DAMAGED = create(NoticeSchema, { reason: "CheckpointDamaged", message: "Step 2 is damaged." });

async function configureWith(address: string, options: { stallMs?: number; signal?: AbortSignal } = {}) {
  await using client = createClient(TrainerService, address);
  const trainer = new TrainerClient({
    client,
    runPathOf: (uid) => `/runs/${uid}`,
    logger: silentLogger,
    ...(options.stallMs === undefined ? {} : { configureStallMs: options.stallMs }),
  });
  const told: string[] = [];
  const ledger = { epoch: 1n, manifest: () => Promise.resolve(undefined), dropped: () => Promise.resolve([]) };
  const onNotices = (notices: readonly Notice[]): void => {
    told.push(notices.map(({ reason, message }) => `${reason}: ${message}`).join(" "));
  };
  const job = { spec: create(JobSpecSchema), uid: "u", ledger, onNotices };
  const signal = options.signal ?? AbortSignal.timeout(20_000);
  const outcome = await trainer.configure(job, signal).catch((error: unknown) => error);
  return { outcome, told };
}

it("a trainer that loads for long is asked until it is ready, and how far it is is told", async () => {
  const { server: started, asked } = await startLoadingTrainer([0.1, 0.429, -0.5], true);
  await using server = started;
  const { outcome, told } = await configureWith(server.address);
  expect(outcome).toMatchObject({ step: 1, weights: { policyVersion: 1n } });
  expect(asked.configure).toBe(4);
  expect(told).toEqual([
    "TrainerConfiguring: The trainer loads the model: 10 %.",
    "TrainerConfiguring: The trainer loads the model: 42 %.",
    "TrainerConfiguring: The trainer restores its newest checkpoint: 50 %.",
    "CheckpointDamaged: Step 2 is damaged.",
  ]);
});

it("cancel ends the wait for a trainer that loads", async () => {
  const { server: started } = await startLoadingTrainer([0.5], false);
  await using server = started;
  const cancel = new AbortController();
  const configuring = configureWith(server.address, { signal: cancel.signal });
  setTimeout(() => cancel.abort(new WhetstoneError("CANCELLED", "the job is to CANCEL")), 300);
  const startedAt = performance.now();
  expect((await configuring).outcome).toMatchObject({ code: "CANCELLED" });
  expect(performance.now() - startedAt).toBeLessThan(15_000);
});

it("a trainer that loads and does not go on fails the job, which says how far it was", async () => {
  const { server: started } = await startLoadingTrainer([0.1, 0.42], false);
  await using server = started;
  const { outcome, told } = await configureWith(server.address, { stallMs: 1000 });
  expect(outcome).toMatchObject({ code: "TRAINER_FAILED" });
  expect((outcome as Error).message).toContain("The trainer loads the model: 42 %, and has not gone on for 1 s");
  expect(told.at(-1)).toBe("TrainerConfiguring: The trainer loads the model: 42 %.");
});

it("a trainer that goes on slower than the bound in all, but never stands still for it, is not given up", async () => {
  const shares = Array.from({ length: 8 }, (_, index) => index / 10);
  const { server: started } = await startLoadingTrainer(shares, true);
  await using server = started;
  const { outcome } = await configureWith(server.address, { stallMs: 1200 });
  expect(outcome).toMatchObject({ step: 1 });
});
