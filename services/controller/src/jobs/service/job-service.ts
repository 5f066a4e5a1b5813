// SPDX-License-Identifier: Apache-2.0
import { clone, create, equals, type MessageInitShape } from "@bufbuild/protobuf";
import { ConfigError, parseEpisodeId, WhetstoneError } from "@whetstone/core";
import type { AuditResult } from "@whetstone/audit";
import type { BundleStore } from "@whetstone/messaging";
import { DESIRED, isFinished, mayReplace, phaseOf } from "@whetstone/messaging/jobs";
import { codeFault, digestOf, type ModuleCode } from "@whetstone/modules/code";
import type { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { type CallContext, implement, type RpcClient } from "@whetstone/rpc";
import {
  type DeleteJobRequest,
  type DeleteJobResponseSchema,
  type DesiredState,
  type Job,
  JobPhase,
  JobSchema,
  JobService,
  type JobSpec,
  JobSpecSchema,
  type StreamEpisodesRequest,
  type StreamMetricsRequest,
  type StreamMetricsResponseSchema,
  type SubmitJobRequest,
  type UpdateJobRequest,
} from "@whetstone/proto/jobs/v1/jobs";
import { compileJob } from "../compiled-job.ts";
import { replayTask } from "../../loop/batch/tasks.ts";
import { type Violation, validateJob } from "../validation/validate-job.ts";
import { takeModule } from "./module-intake.ts";
import type { JobRecords } from "./job-records.ts";
import type { NatsWatch } from "../../nats/nats-watch.ts";
import { DELETING } from "../deleting.ts";
import type { JobStore } from "../job-store.ts";
import type { StoredRuns } from "../stored-runs.ts";
import { firstState } from "../../operator/training-job/suspend.ts";
import { admitJob, type JobChange, type TrainingJobs } from "../../operator/training-job/objects.ts";

export interface JobServiceDeps {
  readonly store: JobStore;
  readonly records: JobRecords;
  readonly storedRuns: Pick<StoredRuns, "checkpoints">;
  readonly bundles: BundleStore;
  /** Knows when NATS refuses writes: then no job's record can say so. */
  readonly natsWatch: Pick<NatsWatch, "overlay" | "withChanges">;
  /** Adds the digests of the artifacts that a job names. */
  pin(
    spec: JobSpec,
  ): Promise<{ readonly spec: JobSpec; readonly violations: readonly Pick<Violation, "path" | "reason">[] }>;
  /** @param module  the job's own code, if it has any */
  checkWorld(spec: JobSpec, module: ModuleCode | undefined): Promise<Violation[]>;
  /** On Kubernetes, where jobs are objects. */
  readonly objects: TrainingJobs | undefined;
  /** There, engines and trainer come only when a job needs them. */
  readonly onDemand?: boolean;
  /** Removes a finished job with what belongs to it. */
  deleteJob(request: DeleteJobRequest, signal: AbortSignal): Promise<MessageInitShape<typeof DeleteJobResponseSchema>>;
  readonly rollouts: Pick<RpcClient<typeof RolloutService>, "replay">;
  /** Recounts a job's books. */
  audit(job: string, signal: AbortSignal): Promise<AuditResult>;
}

/** JobService over the job store: every call is a read, or one compare-and-set. */
export function jobService(deps: JobServiceDeps) {
  const become =
    (state: () => DesiredState, change: JobChange) =>
    ({ name }: { name: string }): Promise<{ job: Job }> =>
      alter(deps, name, change, (job) => setDesired(job, state()));
  return implement(JobService, {
    submitJob: (request) => submit(deps, request),
    pushModule: ({ moduleCode }) => pushModule(deps, moduleCode),
    getJob: async ({ name }) => ({ job: deps.natsWatch.overlay(await deps.store.get(name)) }),
    listJobs: async (request) => {
      const page = await deps.store.list(request.pageSize || 100, request.pageToken);
      return { ...page, jobs: page.jobs.map((job) => deps.natsWatch.overlay(job)) };
    },
    watchJob: ({ name }, context) => watch(deps, name, context),
    updateJob: ({ name, steps, timeout }) =>
      alter(deps, name, { steps, timeout }, (job) => update(job, { name, steps, timeout })),
    suspendJob: become(DESIRED.suspendByUser, { suspend: true }),
    resumeJob: become(DESIRED.run, { suspend: false }),
    cancelJob: become(DESIRED.cancelByUser, { cancel: true }),
    deleteJob: (request, { signal }) => deps.deleteJob(request, signal),
    listCheckpoints: async ({ name }) => {
      const job = await deps.store.get(name);
      return deps.storedRuns.checkpoints(job, await deps.records.checkpoints(job));
    },
    streamMetrics: (request, context) => metrics(deps, request, context),
    streamEpisodes: (request, context) => episodes(deps, request, context),
    getEpisode: ({ episodeId }) => episode(deps, episodeId),
    replayEpisode: ({ episodeId }, context) => replay(deps, episodeId, context),
    explain: async ({ name, step }) => deps.records.explain(await deps.store.get(name), step),
    auditJob: ({ name }, { signal }) => audit(deps, name, signal),
  });
}

/** I11: nothing is stored before every field is valid. */
async function submit(deps: JobServiceDeps, request: SubmitJobRequest) {
  const { spec, module } = await checked(deps, request, request.spec ?? create(JobSpecSchema));
  const existing = await deps.store.find(spec.name);
  if (existing) return { job: sameJob(existing, spec), created: false };
  if (request.dryRun) return { job: { spec }, created: false };
  if (module) await deps.bundles.put(module.digest, module.code); // Before the job: who plays it finds its code.
  return await admit(deps, spec);
}

/** On Kubernetes the object comes first: the record is made from it, here or by the reconciler. */
async function admit(deps: JobServiceDeps, spec: JobSpec): Promise<{ job: Job; created: boolean }> {
  if (!deps.objects) return { job: await deps.store.create(spec), created: true };
  const object = await deps.objects.ensure(spec);
  return admitJob(deps.store, object, firstState(object, deps.onDemand ?? false));
}

/**
 * Changes a job's record, and on Kubernetes its object first: what it says is what the reconciler sees to. The record takes
 * effect at once, except that a job is resumed by the reconciler: only it knows what else the job may have to wait for.
 */
async function alter(
  deps: JobServiceDeps,
  name: string,
  change: JobChange,
  apply: (job: Job) => void,
): Promise<{ job: Job }> {
  apply(clone(JobSchema, await deps.store.get(name))); // Throws where it is not allowed.
  const generation = await deps.objects?.change(name, change);
  if (generation !== undefined && change.suspend === false) return { job: await deps.store.get(name) };
  const job = await deps.store.change(name, (stored) => {
    apply(stored);
    if (generation !== undefined && generation > stored.generation) stored.generation = generation;
  });
  return { job };
}

async function pushModule(deps: JobServiceDeps, code: Uint8Array): Promise<{ digest: string }> {
  const digest = digestOf(code);
  const fault = code.length === 0 ? "is required" : codeFault(digest, code);
  if (fault !== undefined) throw new ConfigError([{ path: "moduleCode", reason: fault }]);
  await deps.bundles.put(digest, code);
  return { digest };
}

/** Looking at the world makes sense only for a job that is well-formed. @returns with digests, and the job's own code */
async function checked(
  deps: JobServiceDeps,
  request: SubmitJobRequest,
  given: JobSpec,
): Promise<{ spec: JobSpec; module: ModuleCode | undefined }> {
  const violations = validateJob(given);
  if (violations.length > 0) throw new ConfigError(violations);
  const { spec, violations: unknown } = await deps.pin(given);
  if (unknown.length > 0) throw new ConfigError(unknown);
  const taken = await takeModule(request, deps.bundles);
  const found = "violations" in taken ? taken.violations : await deps.checkWorld(spec, taken.module);
  if (found.length > 0) throw new ConfigError(found);
  return { spec, module: "module" in taken ? taken.module : undefined };
}

function sameJob(existing: Job, spec: JobSpec): Job {
  if (existing.status?.reason === DELETING.reason)
    throw new WhetstoneError("CONFLICT", `job "${spec.name}" is being deleted: its name is free when it is gone`, {
      retry: "never",
    });
  if (existing.spec && equals(JobSpecSchema, existing.spec, spec)) return existing;
  throw new WhetstoneError("ALREADY_EXISTS", `job "${spec.name}" exists with another spec; choose another name`, {
    retry: "never",
  });
}

function setDesired(job: Job, state: DesiredState): void {
  const phase = phaseOf(job);
  if (isFinished(phase)) {
    if (state.desired.case === "end") return; // Nothing is left to cancel; asking twice is not an error.
    throw new WhetstoneError("CONFLICT", `job "${job.spec?.name}" is finished (${JobPhase[phase]})`, {
      retry: "never",
    });
  }
  if (mayReplace(job.desiredState, state)) job.desiredState = state;
}

/** The changed job is checked as a new one is: an evaluation that is to train from now on may lack what training needs. */
function update(job: Job, request: Pick<UpdateJobRequest, "name" | "steps" | "timeout">): void {
  requireIdle(job, request.name);
  const loop = job.spec?.loop;
  if (!job.spec || !loop) throw new WhetstoneError("INTERNAL", "a stored job has no loop");
  const done = job.status?.step ?? 0;
  if (request.steps !== undefined && request.steps < done)
    throw new ConfigError([{ path: "steps", reason: `must be at least ${done}, the steps done` }]);
  if (request.steps !== undefined) loop.steps = request.steps;
  if (request.timeout) job.spec.timeout = request.timeout;
  const violations = validateJob(job.spec);
  if (violations.length === 0) return;
  throw new ConfigError(
    violations.map(({ path, reason }) => ({ path: path === "loop.steps" ? "steps" : path, reason })),
  );
}

function requireIdle(job: Job, name: string): void {
  const phase = phaseOf(job);
  const conflict = (message: string) => new WhetstoneError("CONFLICT", message, { retry: "never" });
  if (isFinished(phase)) throw conflict(`job "${name}" is finished`);
  if (phase === JobPhase.RUNNING) throw conflict(`suspend job "${name}" before changing it`);
}

async function* watch(deps: JobServiceDeps, name: string, context: CallContext) {
  await deps.store.get(name);
  for await (const job of deps.natsWatch.withChanges(deps.store.watch(name, context.signal), context.signal)) {
    yield { job };
    if (isFinished(phaseOf(job))) return;
  }
}

/** Past records from the ledger, then new ones as the job's record tells of them. */
async function* metrics(deps: JobServiceDeps, request: StreamMetricsRequest, context: CallContext) {
  await deps.store.get(request.name);
  const seen = { step: request.fromStep, validations: 0 };
  for await (const job of follow(deps, request.name, request.follow, context.signal)) {
    for (const validation of (job.status?.validations ?? []).slice(seen.validations)) {
      seen.validations++;
      if (validation.step >= request.fromStep) yield event({ case: "validation", value: validation });
    }
    while (seen.step < (job.status?.step ?? 0)) {
      const record = await deps.records.step(request.name, seen.step);
      seen.step++;
      if (record) yield event({ case: "step", value: record });
    }
  }
}

type MetricsEvent = MessageInitShape<typeof StreamMetricsResponseSchema>;
function event(value: NonNullable<MetricsEvent["event"]>): MetricsEvent {
  return { event: value };
}

async function* follow(deps: JobServiceDeps, name: string, on: boolean, signal: AbortSignal): AsyncGenerator<Job> {
  if (!on) {
    yield await deps.store.get(name);
    return;
  }
  for await (const job of deps.store.watch(name, signal)) {
    yield job;
    if (isFinished(phaseOf(job))) return;
  }
}

async function* episodes(deps: JobServiceDeps, request: StreamEpisodesRequest, context: CallContext) {
  await deps.store.get(request.name);
  yield* deps.records.summaries(request, context.signal);
}

/** What the episode took at most, once more, and some seconds to start a process for the job's own code. */
const REPLAY_GRACE_MS = 60_000;

async function replay(deps: JobServiceDeps, episodeId: string, { signal }: CallContext) {
  const { episode: recorded } = await episode(deps, episodeId);
  const { spec } = await deps.store.get(recorded.job);
  if (!spec) throw new WhetstoneError("INTERNAL", "a stored job has no spec");
  const job = compileJob(spec);
  const request = { task: replayTask(spec, job, recorded), recorded };
  const deadlineMs = job.episodeTimeoutMs + REPLAY_GRACE_MS;
  const { replayed, differences } = await deps.rollouts.replay(request, { signal, deadlineMs });
  return { recorded, ...(replayed && { replayed }), differences };
}

async function audit(deps: JobServiceDeps, name: string, signal: AbortSignal) {
  await deps.store.get(name);
  const result = await deps.audit(name, signal);
  return {
    dispatched: BigInt(result.dispatched),
    trained: BigInt(result.trained),
    voided: BigInt(result.voided),
    baseline: BigInt(result.baseline),
    inFlight: BigInt(result.inFlight),
    lost: BigInt(result.lost),
    duplicated: BigInt(result.duplicated),
    stale: BigInt(result.stale),
    unlabelled: BigInt(result.unlabelled),
    checkedEpisodes: BigInt(result.checkedEpisodes),
    violations: [...result.violations],
  };
}

async function episode(deps: JobServiceDeps, id: string) {
  const spec = (await deps.store.find(parseEpisodeId(id).job))?.spec;
  return deps.records.episode(id, spec?.loop?.batchGroups);
}
