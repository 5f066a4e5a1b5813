// SPDX-License-Identifier: Apache-2.0
// How a run ends when somebody it waits for does not answer: the loop's real code, stubs at its ports.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { abortReason, sleep } from "@whetstone/core";
import { DESIRED } from "@whetstone/messaging/jobs";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  type PolicyRecord,
  PolicyRecordSchema,
} from "@whetstone/proto/events/v1/events";
import { type DesiredState, JobPhase, JobSchema, type StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import { type TrainProgress, TrainProgressSchema, TrainResultSchema } from "@whetstone/proto/trainer/v1/trainer";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { listTasks, seedTasks } from "../datasets/dataset.ts";
import { keptSummary } from "../../test-support/kept-summary.ts";
import { type Ending, type JobParts, runJob, StopRun } from "./job-runner.ts";
import { type Ledger, WAITING } from "./ports.ts";
import { StatusBoard } from "./status-board.ts";

type Place = "configure" | "serve" | "train" | "disk" | "publish";

/** Books in memory. */
function memoryLedger(held?: PolicyRecord) {
  const dispatches: DispatchRecord[] = [];
  const manifests = new Map<number, Uint8Array>();
  const steps: StepRecord[] = [];
  let policy = held;
  const ledger: Ledger = {
    epoch: 1n,
    verify: () => Promise.resolve(),
    dispatches: () => Promise.resolve([...dispatches]),
    saveDispatch: (record) => Promise.resolve(void (dispatches[record.step] = record)),
    collected: () => Promise.resolve(new Set(manifests.keys())),
    manifest: (step) => Promise.resolve(manifests.get(step)),
    createManifest: (manifest) => {
      const stored = manifests.get(manifest.step) ?? toBinary(BatchManifestSchema, manifest);
      manifests.set(manifest.step, stored);
      return Promise.resolve(stored);
    },
    steps: () => Promise.resolve([...steps]),
    dropped: () => Promise.resolve([]),
    saveStep: (record) => Promise.resolve(void steps.push(record)),
    policy: () => Promise.resolve(policy),
    savePolicy: (record) => Promise.resolve(void (policy = record)),
  };
  const batches = (): BatchManifest[] => [...manifests.values()].map((bytes) => fromBinary(BatchManifestSchema, bytes));
  return { ledger, dispatches, batches, steps };
}

/** Never answers; leaves with its signal, as every port promises. */
function hangs(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const leave = (): void => reject(abortReason(signal));
    if (signal.aborted) leave();
    signal.addEventListener("abort", leave, { once: true });
  });
}

/** A step that stands still for want of disk space: the trainer says so again and again until its caller leaves. */
async function hasNoSpace(onProgress: (progress: TrainProgress) => void, signal: AbortSignal): Promise<never> {
  for (;;) {
    onProgress(create(TrainProgressSchema, { phase: WAITING, notices: [{ reason: "DiskFull" }] }));
    await sleep(5, signal);
  }
}

/** Where the trainer serves its versions. */
const URL = "http://trainer:1/weights/u";

/** A job of two steps whose episodes are sealed as soon as they are asked for, and where `place` never answers. */
function stage(place: Place, spec: { timeout?: { seconds: bigint } } = {}, held?: PolicyRecord) {
  const books = memoryLedger(held);
  const reached = Promise.withResolvers<void>();
  const stuck = (signal: AbortSignal): Promise<never> => {
    reached.resolve();
    return hangs(signal);
  };
  const weights = (step: number) => ({
    policyVersion: BigInt(step),
    path: `/w/${step}`,
    manifestDigest: "d",
    url: URL,
  });
  let served = 0;
  const parts = {
    ledger: books.ledger,
    episodes: {
      find: (episodeId: string) => ({
        sequence: 1n,
        summary: keptSummary(
          create(EpisodeSummarySchema, { episodeId, failureClass: FailureClass.NONE, sampledTokens: 1, reward: 1 }),
        ),
      }),
      size: 0,
      grown: (_seen: number, signal: AbortSignal) => hangs(signal),
    },
    queue: { publish: () => Promise.resolve(), purge: () => Promise.resolve() },
    trainer: {
      configure: (_job: unknown, signal: AbortSignal) =>
        place === "configure" ? stuck(signal) : Promise.resolve({ step: 0, weights: weights(0) }),
      trainStep: (step: number, onProgress: (progress: TrainProgress) => void, signal: AbortSignal) => {
        if (place === "train") return stuck(signal);
        if (place !== "disk") return Promise.resolve(create(TrainResultSchema, { step, weights: weights(step + 1) }));
        reached.resolve();
        return hasNoSpace(onProgress, signal);
      },
      takeWaitedMs: () => 0,
      repairWeights: () => Promise.resolve(),
    },
    fleet: {
      serve: (_policy: unknown, signal: AbortSignal) => {
        served++;
        return place === "serve" || (place === "publish" && served > 1) ? stuck(signal) : Promise.resolve(1);
      },
      release: () => Promise.resolve(),
    },
    train: seedTasks(0, 8),
    validation: listTasks([]),
    board: new StatusBoard({ write: () => Promise.resolve(), onStep: none, onValidation: none }, []),
    logger: silentLogger,
    mayRestart: () => true,
  } as unknown as JobParts;
  const job = create(JobSchema, {
    uid: "u",
    spec: {
      name: "stuck",
      algorithm: { kind: { case: "policyGradient", value: { groupSize: 2 } } },
      loop: { steps: 2, batchGroups: 2, maxPolicyLag: 1 },
      ...spec,
    },
  });
  const signals = { suspend: new AbortController(), end: new AbortController(), shutdown: new AbortController() };
  const ending = runJob(job, parts, {
    suspend: signals.suspend.signal,
    end: signals.end.signal,
    shutdown: signals.shutdown.signal,
  });
  return { ...books, ending, signals, reached: reached.promise };
}

const none = (): Promise<void> => Promise.resolve();
/** The reason of the signal by which a run hears of it. */
function told({ desired }: DesiredState): StopRun {
  if (desired.case !== "suspend" && desired.case !== "end") throw new Error("it is not to stop");
  return new StopRun(desired.value);
}

/** Which step's episodes are in which book (I2). */
function booksOf({ dispatches, batches, steps }: ReturnType<typeof stage>) {
  const dispatched = dispatches.flatMap(({ samples }) => samples).reduce((a, b) => a + b, 0);
  const listed = batches().reduce((sum, { entries, voided }) => sum + entries.length + voided.length, 0);
  const ids = batches().flatMap(({ entries, voided }) => [...entries, ...voided].map(({ episodeId }) => episodeId));
  return { dispatched, listed, distinct: new Set(ids).size, steps: steps.length };
}

describe("a cancelled job ends though nobody answers", () => {
  it.each<[string, Place]>([
    ["a trainer that loads", "configure"],
    ["engines that take no weights", "serve"],
    ["a trainer that trains", "train"],
    ["a step that waits for disk space", "disk"],
    ["engines that do not take the next version", "publish"],
  ])("%s", async (_name, place) => {
    const run = stage(place);
    await run.reached;
    run.signals.end.abort(told(DESIRED.cancelByUser()));
    expect(await run.ending).toMatchObject({ phase: JobPhase.CANCELLED, reason: "CancelledByUser" });
    const { dispatched, listed, distinct } = booksOf(run);
    expect(listed, "every episode is in one book (I2)").toBe(dispatched);
    expect(distinct, "and in no other (I1)").toBe(listed);
  });

  it("a step that the trainer had begun is recorded by nobody: its checkpoint alone tells of it", async () => {
    const run = stage("train");
    await run.reached;
    run.signals.end.abort(told(DESIRED.cancelByUser()));
    await run.ending;
    expect(booksOf(run).steps).toBe(0);
  });

  it("though it was told to suspend before", async () => {
    const run = stage("train");
    await run.reached;
    run.signals.suspend.abort(told(DESIRED.suspendByUser()));
    expect(await Promise.race([run.ending, waits()]), "a suspended job finishes its step").toBe("waits");
    run.signals.end.abort(told(DESIRED.cancelByUser()));
    expect(await run.ending).toMatchObject({ phase: JobPhase.CANCELLED });
  });
});

it("a job is suspended though its step waits for disk space, which may be for ever", async () => {
  const run = stage("disk");
  await run.reached;
  run.signals.suspend.abort(told(DESIRED.suspendByUser()));
  expect(await run.ending).toMatchObject({ phase: JobPhase.SUSPENDED, reason: "SuspendedByUser" });
});

it.each<[string, Place]>([
  ["nobody answers", "train"],
  ["its step waits for disk space", "disk"],
])("a job whose timeout passes ends though %s", async (_name, place) => {
  const run = stage(place, { timeout: { seconds: 0n, nanos: 200_000_000 } as never });
  expect(await run.ending).toMatchObject({ phase: JobPhase.FAILED, reason: "DeadlineExceeded" });
});

it("tells engines where a trainer serves its versions that was started again elsewhere", async () => {
  const before = create(PolicyRecordSchema, { job: "stuck", policyVersion: 0n, path: "/w/0", url: "http://gone:1" });
  const run = stage("serve", {}, before);
  await run.reached;
  expect(await run.ledger.policy()).toMatchObject({ policyVersion: 0n, path: "/w/0", url: URL });
  run.signals.shutdown.abort();
  await run.ending;
});

it("a timeout longer than a timer is no timeout at once", async () => {
  const run = stage("train", { timeout: { seconds: 300n * 86_400n } });
  await run.reached;
  expect(await Promise.race([run.ending, waits()])).toBe("waits");
  run.signals.shutdown.abort();
  expect(await run.ending).toEqual({ phase: "left" } satisfies Ending);
});

async function waits(): Promise<string> {
  await waitFor(() => true);
  return new Promise((resolve) => setTimeout(() => resolve("waits"), 100));
}
