// SPDX-License-Identifier: Apache-2.0
// A job whose episodes all fail must not look like one that has trained: the whole loop, with its neighbours in memory.
import { create, toBinary } from "@bufbuild/protobuf";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  type PolicyRecord,
  type RolloutTask,
} from "@whetstone/proto/events/v1/events";
import {
  type Job,
  JobPhase,
  JobSchema,
  type JobStatus,
  JobStatusSchema,
  type StepRecord,
} from "@whetstone/proto/jobs/v1/jobs";
import { TrainResultSchema, WeightsSchema } from "@whetstone/proto/trainer/v1/trainer";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";
import { describe, expect, it } from "vitest";
import { seedTasks } from "../datasets/dataset.ts";
import { EpisodeTable } from "./batch/episode-table.ts";
import { runJob } from "./job-runner.ts";
import type { EpisodeIndex, Fleet, Ledger, Trainer } from "./ports.ts";
import { StatusBoard } from "./status-board.ts";

const never = new AbortController().signal;
const MESSAGE = "the environment's step() returned reward NaN";

function memoryLedger() {
  const [dispatches, steps, manifests] = [[] as DispatchRecord[], [] as StepRecord[], new Map<number, Uint8Array>()];
  let policy: PolicyRecord | undefined;
  const ledger: Ledger = {
    epoch: 1n,
    verify: () => Promise.resolve(),
    dropped: () => Promise.resolve([]),
    dispatches: () => Promise.resolve([...dispatches]),
    saveDispatch: (record) => Promise.resolve(void (dispatches[record.step] = record)),
    collected: () => Promise.resolve(new Set(manifests.keys())),
    manifest: (step) => Promise.resolve(manifests.get(step)),
    createManifest: (manifest: BatchManifest) => {
      const bytes = manifests.get(manifest.step) ?? toBinary(BatchManifestSchema, manifest);
      manifests.set(manifest.step, bytes);
      return Promise.resolve(bytes);
    },
    steps: () => Promise.resolve([...steps]),
    saveStep: (record) => Promise.resolve(void (steps[record.step] = record)),
    policy: () => Promise.resolve(policy),
    savePolicy: (record) => Promise.resolve(void (policy = record)),
  };
  return { ledger, steps };
}

/** Seals every task at once; `fails` says which training steps' episodes fail. */
async function run(spec: object, fails: (step: number) => boolean, failureClass = FailureClass.ENVIRONMENT) {
  const sealed = new EpisodeTable();
  const seal = ({ episodeId, group }: RolloutTask): void => {
    const step = group.startsWith("g") ? Number(group.slice(1)) : 0;
    const failure = fails(step)
      ? { failureClass, failurePhase: "step", failureMessage: MESSAGE }
      : { failureClass: FailureClass.NONE };
    const summary = create(EpisodeSummarySchema, { episodeId, sampledTokens: 5, minPolicyVersion: 9n, ...failure });
    sealed.add(sealed.size + 1, summary);
  };
  const episodes = {
    find: sealed.find,
    get size() {
      return sealed.size;
    },
    grown: () => Promise.resolve(),
  } as unknown as EpisodeIndex;
  const weights = create(WeightsSchema, { path: "/w", manifestDigest: "ab" });
  const trainer = {
    configure: () => Promise.resolve({ step: 0, weights }),
    trainStep: (step: number) => Promise.resolve(create(TrainResultSchema, { step, weights, metrics: { loss: 0 } })),
    takeWaitedMs: () => 0,
    repairWeights: () => Promise.resolve(),
  } as unknown as Trainer;
  const status = create(JobStatusSchema, { phase: JobPhase.RUNNING, reason: "Training" });
  const said = new Set<string>();
  const write = (change: (status: JobStatus) => void): Promise<void> => {
    change(status);
    if (status.message !== "") said.add(`${status.reason}: ${status.message}`);
    return Promise.resolve();
  };
  const sinks = { write, onStep: () => Promise.resolve(), onValidation: () => Promise.resolve() };
  const { ledger, steps } = memoryLedger();
  const queue = {
    publish: async (tasks: AsyncIterable<RolloutTask>) => {
      for await (const task of tasks) seal(task);
    },
    purge: () => Promise.resolve(),
  };
  const job: Job = create(JobSchema, { uid: "u", spec: { name: "j", ...spec } });
  const tasks = seedTasks(0, 2);
  const fleet = { serve: () => Promise.resolve(1), release: () => Promise.resolve() } as Fleet;
  const board = new StatusBoard(sinks, []);
  const parts = { ledger, episodes, queue, trainer, fleet, train: tasks, validation: tasks, board };
  const more = { logger: silentLogger, mayRestart: () => false };
  const ending = await runJob(job, { ...parts, ...more }, { suspend: never, end: never, shutdown: never });
  return { ending, steps, said: [...said], validations: status.validations };
}

const training = (steps: number) => ({
  algorithm: { kind: { case: "policyGradient" as const, value: { groupSize: 2 } } },
  loop: { steps, batchGroups: 1 },
});

describe("a job whose episodes were all voided", () => {
  it("fails after three batches in a row, with the commonest reason and an example", async () => {
    const { ending, steps, said } = await run(training(10), () => true);
    expect(ending).toMatchObject({ phase: JobPhase.FAILED, reason: "NothingTrained" });
    const commonest = `0 of 2 episodes trained; commonest: ENVIRONMENT step: ${MESSAGE} (2 times)`;
    expect((ending as { message: string }).message).toContain(`Step 3 trained nothing: ${commonest}.`);
    expect(steps).toHaveLength(3);
    expect(steps[0]?.metrics).not.toHaveProperty("rollout/reward");
    expect(said[0]).toBe(
      `NothingTrained: Step 1 trained nothing: ${commonest}. After 3 such steps in a row the job fails.`,
    );
  });

  it("fails also where it has fewer steps than that", async () => {
    expect((await run(training(1), () => true)).ending).toMatchObject({
      phase: JobPhase.FAILED,
      reason: "NothingTrained",
    });
  });

  it("outlives an outage of any length, but does not succeed where nothing else was", async () => {
    const outage = FailureClass.INFRASTRUCTURE;
    const { ending, said } = await run(training(7), (step) => step < 6, outage);
    expect(ending).toMatchObject({ phase: JobPhase.SUCCEEDED });
    expect(said.filter((text) => text.includes("by itself does not fail the job"))).toHaveLength(6);
    expect((await run(training(5), () => true, outage)).ending).toMatchObject({
      phase: JobPhase.FAILED,
      reason: "NothingTrained",
    });
  });

  it("goes on after a batch that trained something", async () => {
    const { ending, steps, said } = await run(training(6), (step) => step % 3 !== 2);
    expect(ending).toMatchObject({ phase: JobPhase.SUCCEEDED });
    expect(steps.map((step) => step.weightsDigest)).toEqual(Array(6).fill("ab"));
    expect(said.filter((text) => text.startsWith("NothingTrained"))).toHaveLength(4);
  });

  it("fails where it only evaluates and could score nothing", async () => {
    const evaluation = { loop: { steps: 0 }, validation: { atEnd: true, atStart: true } };
    const { ending, validations } = await run(evaluation, () => true);
    expect(ending).toMatchObject({ phase: JobPhase.FAILED, reason: "NothingScored" });
    expect(validations[0]?.commonestFailure).toBe(`ENVIRONMENT step: ${MESSAGE} (2 times)`);
    expect((await run(evaluation, () => false)).ending).toMatchObject({ phase: JobPhase.SUCCEEDED });
  });
});
