// SPDX-License-Identifier: Apache-2.0
import { create, equals, type MessageInitShape } from "@bufbuild/protobuf";
import { ConfigError, parseEpisodeId, WhetstoneError } from "@whetstone/core";
import type { BundleStore } from "@whetstone/messaging";
import type { ModuleCode } from "@whetstone/modules/code";
import type { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { type CallContext, implement, type RpcClient } from "@whetstone/rpc";
import {
  type Job,
  JobPhase,
  JobService,
  type JobSpec,
  JobSpecSchema,
  JobWish,
  type StreamEpisodesRequest,
  type StreamMetricsRequest,
  type StreamMetricsResponseSchema,
  type SubmitJobRequest,
  type UpdateJobRequest,
} from "@whetstone/proto/jobs/v1/jobs";
import { compileJob } from "../domain/compiled-job.ts";
import { isFinished } from "../domain/job-phase.ts";
import { replayTask } from "../domain/tasks.ts";
import { type Violation, validateJob } from "../domain/validate-job.ts";
import { takeModule } from "../adapters/module-intake.ts";
import type { JobRecords } from "../adapters/job-records.ts";
import type { JobStore } from "../adapters/job-store.ts";

export interface JobServiceDeps {
  readonly store: JobStore;
  readonly records: JobRecords;
  readonly bundles: BundleStore;
  /** @param module  the job's own code, if it has any */
  checkWorld(spec: JobSpec, module: ModuleCode | undefined): Promise<Violation[]>;
  readonly rollouts: Pick<RpcClient<typeof RolloutService>, "replay">;
  /** Tells the scheduler that a job's record has changed. */
  wake(job: Job): void;
}

/** JobService over the job store: every call is a read, or one compare-and-set followed by a wake of the scheduler. */
export function jobService(deps: JobServiceDeps) {
  const wish =
    (to: JobWish) =>
    async (request: { name: string }): Promise<{ job: Job }> => {
      const job = await deps.store.change(request.name, (stored) => applyWish(stored, to));
      deps.wake(job);
      return { job };
    };
  return implement(JobService, {
    submitJob: (request) => submit(deps, request),
    getJob: async ({ name }) => ({ job: await deps.store.get(name) }),
    listJobs: (request) => deps.store.list(request.pageSize || 100, request.pageToken),
    watchJob: ({ name }, context) => watch(deps, name, context),
    updateJob: async (request) => {
      const job = await deps.store.change(request.name, (stored) => update(stored, request));
      deps.wake(job);
      return { job };
    },
    suspendJob: wish(JobWish.SUSPEND),
    resumeJob: wish(JobWish.RUN),
    cancelJob: wish(JobWish.CANCEL),
    listCheckpoints: async ({ name }) => ({ checkpoints: await deps.records.checkpoints(await deps.store.get(name)) }),
    streamMetrics: (request, context) => metrics(deps, request, context),
    streamEpisodes: (request, context) => episodes(deps, request, context),
    getEpisode: ({ episodeId }) => episode(deps, episodeId),
    replayEpisode: ({ episodeId }, context) => replay(deps, episodeId, context),
    explain: async ({ name, step }) => deps.records.explain(await deps.store.get(name), step),
  });
}

/** I11: nothing is stored before every field is valid. */
async function submit(deps: JobServiceDeps, request: SubmitJobRequest) {
  const spec = request.spec ?? create(JobSpecSchema);
  const module = await checked(deps, request, spec);
  const existing = await deps.store.find(spec.name);
  if (existing) return { job: sameJob(existing, spec), created: false };
  if (request.dryRun) return { job: { spec }, created: false };
  if (module) await deps.bundles.put(module.digest, module.code); // Before the job: who plays it finds its code.
  const job = await deps.store.create(spec);
  deps.wake(job);
  return { job, created: true };
}

/** Looking at the world makes sense only for a job that is well-formed. @returns the job's own code */
async function checked(
  deps: JobServiceDeps,
  request: SubmitJobRequest,
  spec: JobSpec,
): Promise<ModuleCode | undefined> {
  const violations = validateJob(spec);
  if (violations.length > 0) throw new ConfigError(violations);
  const taken = await takeModule(request, deps.bundles);
  const found = "violations" in taken ? taken.violations : await deps.checkWorld(spec, taken.module);
  if (found.length > 0) throw new ConfigError(found);
  return "module" in taken ? taken.module : undefined;
}

function sameJob(existing: Job, spec: JobSpec): Job {
  if (existing.spec && equals(JobSpecSchema, existing.spec, spec)) return existing;
  throw new WhetstoneError("ALREADY_EXISTS", `job "${spec.name}" exists with another spec; choose another name`, {
    retry: "never",
  });
}

function applyWish(job: Job, to: JobWish): void {
  const phase = job.status?.phase ?? JobPhase.QUEUED;
  if (isFinished(phase)) {
    if (to === JobWish.CANCEL) return; // Nothing is left to cancel; asking twice is not an error.
    throw new WhetstoneError("CONFLICT", `job "${job.spec?.name}" is finished (${JobPhase[phase]})`, {
      retry: "never",
    });
  }
  if (job.wish !== JobWish.CANCEL) job.wish = to;
}

function update(job: Job, request: UpdateJobRequest): void {
  requireIdle(job, request.name);
  const loop = job.spec?.loop;
  if (!job.spec || !loop) throw new WhetstoneError("INTERNAL", "a stored job has no loop");
  const done = job.status?.step ?? 0;
  if (request.steps !== undefined && request.steps < done)
    throw new ConfigError([{ path: "steps", reason: `must be at least ${done}, the steps done` }]);
  if (request.steps !== undefined) loop.steps = request.steps;
  if (request.timeout) job.spec.timeout = request.timeout;
}

function requireIdle(job: Job, name: string): void {
  const phase = job.status?.phase ?? JobPhase.QUEUED;
  const conflict = (message: string) => new WhetstoneError("CONFLICT", message, { retry: "never" });
  if (isFinished(phase)) throw conflict(`job "${name}" is finished`);
  if (phase === JobPhase.RUNNING) throw conflict(`suspend job "${name}" before changing it`);
}

async function* watch(deps: JobServiceDeps, name: string, context: CallContext) {
  await deps.store.get(name);
  for await (const job of deps.store.watch(name, context.signal)) {
    yield { job };
    if (isFinished(job.status?.phase ?? JobPhase.QUEUED)) return;
  }
}

/** Past records from the ledger, then new ones as the job's record tells of them. */
async function* metrics(deps: JobServiceDeps, request: StreamMetricsRequest, context: CallContext) {
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
    if (isFinished(job.status?.phase ?? JobPhase.QUEUED)) return;
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

async function episode(deps: JobServiceDeps, id: string) {
  const spec = (await deps.store.find(parseEpisodeId(id).job))?.spec;
  return deps.records.episode(id, spec?.loop?.batchGroups);
}
