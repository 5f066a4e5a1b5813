// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { durationOf } from "../jobs/duration.ts";
import { type PolicyRecord, PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { type StepRecord, StepRecordSchema, type ValidationResult } from "@whetstone/proto/jobs/v1/jobs";
import {
  type Notice,
  type TrainProgress,
  type TrainResult,
  type Weights,
  WeightsSchema,
} from "@whetstone/proto/trainer/v1/trainer";
import { validationDue, versionIsServed } from "./admission.ts";
import { refuseUnscored, TrainedBatches } from "./trained-batches.ts";
import type { BatchCollector, CollectedBatch } from "./batch/batch-collector.ts";
import type { JobContext } from "./job-context.ts";
import { type Ledger, type Trainer, type TrainerState, WAITING } from "./ports.ts";
import { Stopwatch } from "./stopwatch.ts";
import type { ValidationRun } from "./validation/validation-run.ts";

export interface LoopParts {
  readonly trainer: Trainer;
  readonly ledger: Ledger;
  readonly batches: BatchCollector;
  readonly validations: ValidationRun;
}

interface Run {
  readonly context: JobContext;
  readonly parts: LoopParts;
  readonly watch: Stopwatch;
  readonly stop: AbortSignal;
}

/**
 * The sample, train, sync loop of one job (ARCHITECTURE.md, steps 2 to 11). `stop` ends it between two awaits: a step that
 * the trainer has begun is finished, published and recorded, since its weights exist. `context.leave` ends any wait.
 */
export async function runTrainingLoop(context: JobContext, parts: LoopParts, stop: AbortSignal): Promise<void> {
  const watch = new Stopwatch();
  let step = await resumePoint(context, parts, watch, stop);
  const trained = new TrainedBatches(await parts.ledger.steps(), context.job.steps);
  for (; step < context.job.steps; step++) {
    stop.throwIfAborted();
    await parts.batches.admit(step, stop);
    const validation = startValidation(context, parts, step, stop);
    validation.catch(() => undefined); // Awaited below; a stop in between must not count as unhandled.
    const batch = await watch.measure("sampling", () => parts.batches.collect(step, stop));
    // The trainer evaluates the version that its next step changes.
    if (context.job.validation?.isHeldOut === true) await watch.measure("validating", () => validation);
    const result = await train({ context, parts, watch, stop }, batch);
    await watch.measure("validating", () => validation);
    await watch.measure("syncing", () => publishPolicy(context, parts, result, context.leave));
    const record = recordOf(result, batch, watch);
    await finishStep(context, parts.ledger, record);
    context.notices("batch", trained.add(record));
  }
  trained.end();
  const results = await startValidation(context, parts, step, stop);
  if (context.job.steps === 0) refuseUnscored(results);
}

/** Brings trainer, ledger and engines to the same version after whatever happened before. Returns the next step. */
async function resumePoint(
  context: JobContext,
  parts: LoopParts,
  watch: Stopwatch,
  stop: AbortSignal,
): Promise<number> {
  const state = await watch.measure("waiting", () => startingState(context, parts, stop));
  const recorded = (await parts.ledger.steps()).length;
  const run = { context, parts, watch, stop };
  if (state.step > recorded) await recordUnrecorded(run, { from: recorded, to: state.step });
  else await replay(run, state, recorded);
  const next = Math.max(recorded, state.step);
  const policy = await parts.ledger.policy();
  if (!policy) await savePolicy(context, parts.ledger, state);
  // A trainer that was started again may serve its versions somewhere else.
  else if (policy.url !== state.weights.url)
    await savePolicy(context, parts.ledger, { weights: movedTo(policy, state) });
  await watch.measure("syncing", () => servePolicy(context, parts, stop));
  return next;
}

function movedTo({ policyVersion, path, manifestDigest }: PolicyRecord, { weights: { url } }: TrainerState): Weights {
  return create(WeightsSchema, { policyVersion, path, manifestDigest, url });
}

/** What the trainer holds; a job that only evaluates needs none and starts from the user's own folder. */
async function startingState(context: JobContext, parts: LoopParts, stop: AbortSignal): Promise<TrainerState> {
  const { spec, uid } = context;
  const onNotices = (notices: readonly Notice[]): void => context.notices("trainer", notices);
  if (context.job.steps > 0) return parts.trainer.configure({ spec, uid, ledger: parts.ledger, onNotices }, stop);
  return { step: 0, weights: create(WeightsSchema, { path: spec.model?.path ?? "" }) };
}

/** The trainer finished a step, but its record was not written: ask it for the result again. */
async function recordUnrecorded(run: Run, steps: { from: number; to: number }): Promise<void> {
  const { context, parts, watch } = run;
  for (let step = steps.from; step < steps.to; step++) {
    const batch = await parts.batches.collected(step);
    const result = await train(run, batch);
    await savePolicy(context, parts.ledger, result);
    await finishStep(context, parts.ledger, recordOf(result, batch, watch));
  }
}

/** The trainer's newest checkpoint is older than the records: train the same manifests again. */
async function replay(run: Run, state: TrainerState, recorded: number): Promise<void> {
  const { context, parts } = run;
  for (let step = state.step; step < recorded; step++) {
    const { weights } = await trainStep(run, step);
    const policy = await parts.ledger.policy();
    // Weights that were damaged were written anew: engines must know their digest.
    const isNewest = weights !== undefined && weights.policyVersion === policy?.policyVersion;
    if (isNewest && weights.manifestDigest !== policy.manifestDigest)
      await savePolicy(context, parts.ledger, { weights });
  }
}

async function train(run: Run, batch: CollectedBatch): Promise<TrainResult> {
  const result = await run.watch.measure("training", () => trainStep(run, batch.manifest.step));
  run.context.notices("result", result.notices);
  run.watch.move("training", "waiting", run.parts.trainer.takeWaitedMs());
  return result;
}

/** A step that stands still, for want of disk space, may do so for ever: a stop leaves it there. */
async function trainStep({ context, parts, stop }: Run, step: number): Promise<TrainResult> {
  const left = new AbortController();
  const onProgress = (progress: TrainProgress): void => {
    context.onTrainProgress(progress);
    if (stop.aborted && progress.phase === WAITING) left.abort(stop.reason);
  };
  try {
    return await parts.trainer.trainStep(step, onProgress, AbortSignal.any([context.leave, left.signal]));
  } finally {
    context.notices("step", []);
  }
}

/** Weights first become the job's newest policy, then every engine's; a crash in between is made good by `resumePoint`. */
async function publishPolicy(
  context: JobContext,
  parts: LoopParts,
  result: TrainResult,
  signal: AbortSignal,
): Promise<void> {
  await savePolicy(context, parts.ledger, result);
  if (versionIsServed(context.job, result.step + 1)) await servePolicy(context, parts, signal);
  else parts.batches.live(result.step + 1);
}

async function savePolicy(
  context: JobContext,
  ledger: Ledger,
  { weights }: Pick<TrainResult, "weights">,
): Promise<void> {
  if (!weights) throw new Error("the trainer answered without weights");
  const { policyVersion, path, manifestDigest, url } = weights;
  const job = context.job.name;
  // Where engines fetch weights the trainer may be the only one that sees its folder.
  const tokenizerPath = url === "" ? "" : (context.spec.model?.path ?? "");
  const record = { job, policyVersion, path, manifestDigest, url, tokenizerPath, epoch: ledger.epoch };
  const policy = create(PolicyRecordSchema, record);
  await ledger.savePolicy(policy);
  await context.onPolicy(policy);
}

async function servePolicy(context: JobContext, parts: LoopParts, signal: AbortSignal): Promise<void> {
  const policy = await parts.ledger.policy();
  if (!policy) throw new Error(`job ${context.job.name} has steps but no policy record`);
  const repair = (): Promise<void> => parts.trainer.repairWeights(policy.policyVersion);
  await context.fleet.serve(policy, signal, { weight: context.job.weight, repair });
  parts.batches.live(Number(policy.policyVersion));
}

/** Validation shares the engines with sampling, and must end before the weights change. */
async function startValidation(
  context: JobContext,
  parts: LoopParts,
  step: number,
  stop: AbortSignal,
): Promise<readonly ValidationResult[]> {
  if (!validationDue(context.job, step)) return [];
  const results: ValidationResult[] = await parts.validations.run(step, stop);
  await context.onValidation(results);
  return results;
}

function recordOf(result: TrainResult, batch: CollectedBatch, watch: Stopwatch): StepRecord {
  const lap = watch.lap();
  return create(StepRecordSchema, {
    step: result.step,
    policyVersion: BigInt(result.step + 1),
    metrics: { ...batch.metrics, ...result.metrics },
    timing: {
      total: durationOf(lap.total),
      sampling: durationOf(lap.sampling),
      training: durationOf(lap.training),
      syncing: durationOf(lap.syncing),
      waiting: durationOf(lap.waiting),
      validating: durationOf(lap.validating),
    },
    episodes: batch.manifest.entries.length - result.dropped.length,
    voided: batch.manifest.voided.length + result.dropped.length,
    baselines: batch.manifest.baselines.length,
    dropped: result.dropped,
    tokensSampled: BigInt(batch.tokensSampled),
    tokensTrained: result.tokensTrained,
    finishedAt: timestampNow(),
    batchDigest: result.batchDigest,
    weightsDigest: result.weights?.manifestDigest ?? "",
    commonestFailure: batch.commonestFailure || (result.dropped[0]?.message ?? ""),
  });
}

async function finishStep(context: JobContext, ledger: Ledger, record: StepRecord): Promise<void> {
  await ledger.saveStep(record);
  await context.onStep(record);
}
