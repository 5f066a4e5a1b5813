// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { DroppedEpisodeSchema, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { TrainerService, type TrainProgress } from "@whetstone/proto/trainer/v1/trainer";
import { createClient, implement, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { expect, it } from "vitest";
import { TrainerClient } from "./trainer-client.ts";

/** A trainer whose first attempt at step 3 ends with `failure`; asked after that, it has done two steps. */
async function startTrainer(failure: Error) {
  const calls: string[] = [];
  const server = await startServer({
    host: "127.0.0.1",
    port: 0,
    logger: silentLogger,
    services: [
      implement(TrainerService, {
        configure: () => {
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

it("a trainer that finds its disk full when it starts again waits as a step does, so that it can be left", async () => {
  const failure = new WhetstoneError("UNAVAILABLE", "/runs/u: no space", { context: { reason: "DiskFull" } });
  const seen: string[] = [];
  await trainStepThree(failure, ({ phase, notices }) => seen.push(`${phase} ${notices[0]?.reason ?? ""}`));
  expect(seen).toContain("waiting DiskFull");
});
