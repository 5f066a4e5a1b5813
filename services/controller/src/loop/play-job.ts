// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { hostname } from "node:os";
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { WhetstoneError } from "@whetstone/core";
import { eventSubject } from "@whetstone/messaging";
import { isFinished, jobState } from "@whetstone/messaging/jobs";
import { type JobEvent, JobEventSchema, PhaseChangedSchema } from "@whetstone/proto/events/v1/events";
import { type Job, JobPhase, type JobStatus } from "@whetstone/proto/jobs/v1/jobs";
import { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import { createClient } from "@whetstone/rpc";
import { jobWithPaths } from "../artifacts/job-artifacts.ts";
import { loadDataset } from "../datasets/dataset-file.ts";
import { KvLedger } from "./batch/kv-ledger.ts";
import { NatsTaskQueue } from "./batch/nats-task-queue.ts";
import { StreamEpisodeIndex } from "./batch/stream-episode-index.ts";
import { needsTrainer } from "./next-job.ts";
import type { Trainer } from "./ports.ts";
import { NO_TRAINER } from "./trainer/no-trainer.ts";
import { TrainerClient } from "./trainer/trainer-client.ts";
import { listTasks, type TaskList } from "../datasets/dataset.ts";
import { type Ending, type JobParts, runJob, type RunSignals } from "./job-runner.ts";
import { type BoardSinks, StatusBoard } from "./status-board.ts";
import type { World } from "../world.ts";
import { hideSteps, showStep } from "./step-gauges.ts";

type EventKind = Extract<JobEvent["kind"], { case: "step" | "validation" | "phaseChanged" }>;

/** Opens all that a job's run needs, runs it, and closes it again. */
export async function playJob(world: World, stored: Job, signals: RunSignals): Promise<Ending> {
  const job = jobWithPaths(stored, world.artifacts.layout);
  const name = job.spec?.name ?? "";
  try {
    await using stack = new AsyncDisposableStack();
    const parts = await openJob(world, job, signals.shutdown, stack);
    stack.defer(() => hideSteps(world.metrics, name));
    stack.defer(() => world.fleet.release(name));
    return await runJob(job, parts, signals);
  } catch (error) {
    if (signals.shutdown.aborted || WhetstoneError.from(error).code === "STALE_EPOCH") return { phase: "left" };
    world.logger.error("job_not_started", { job: name, error });
    const message = error instanceof Error ? error.message : String(error);
    if (mayRestart(job)) return { phase: JobPhase.QUEUED, reason: "Restarting", message };
    return { phase: JobPhase.FAILED, reason: "NotStarted", message };
  }
}

async function openJob(world: World, job: Job, signal: AbortSignal, stack: AsyncDisposableStack): Promise<JobParts> {
  const { nats, streams } = world;
  const name = job.spec?.name ?? "";
  const logger = world.logger.child({ job: name });
  const ledger = await KvLedger.take(nats, name, `${hostname()}/${process.pid}`, world.lead);
  const board = new StatusBoard(sinksOf(world, name, ledger.epoch), job.status?.validations ?? []);
  stack.use(world.notices.follow((notices) => board.notices("installation", notices)));
  return {
    ledger,
    episodes: stack.use(new StreamEpisodeIndex(streams, name, logger)),
    queue: new NatsTaskQueue(nats, streams, name, world.lead),
    trainer: await trainerOf(world, job, signal, stack),
    fleet: world.fleet,
    train: await tasksOf(job.spec?.train),
    validation: await tasksOf(job.spec?.validation?.dataset),
    board,
    logger,
    mayRestart: () => mayRestart(job),
  };
}

/** One of the installation's, or the one that was made for this job. */
async function trainerOf(world: World, job: Job, signal: AbortSignal, stack: AsyncDisposableStack): Promise<Trainer> {
  if (jobState(job).kind === "ending" || (!needsTrainer(job) && job.trainerAddress === "")) return NO_TRAINER;
  const { config, tls, logger, lead, trainers } = world;
  const client =
    job.trainerAddress === ""
      ? stack.use(await trainers.borrow(job.uid, signal)).client
      : stack.use(createClient(TrainerService, job.trainerAddress, { tls: tls?.to("trainer") }));
  return new TrainerClient({ client, runPathOf: (uid) => join(config.dataPath, "runs", uid), logger, lead });
}

function mayRestart(job: Job): boolean {
  return (job.status?.restarts ?? 0) < job.maxRestarts;
}

async function tasksOf(dataset: Parameters<typeof loadDataset>[0] | undefined): Promise<TaskList> {
  return dataset ? loadDataset(dataset) : listTasks([]);
}

function sinksOf(world: World, name: string, epoch: bigint): BoardSinks {
  return {
    onStep: (value) => {
      showStep(world.metrics, name, value);
      return tell(world, name, { case: "step", value }, `${name}/step/${value.step}`);
    },
    onValidation: (value) =>
      tell(world, name, { case: "validation", value }, `${name}/validation/${value.step}/${value.variant}`),
    write: async (change) => {
      world.lead.assert();
      await world.store.change(name, (job) => {
        if ((job.status?.epoch ?? 0n) > epoch)
          throw new WhetstoneError("STALE_EPOCH", `job ${name} is run by another controller`);
        if (job.status && !isFinished(job.status.phase)) {
          change(job.status);
          job.status.epoch = epoch;
        }
      });
    },
  };
}

/** Events are for people and dashboards: what cannot be told must not stop a job. */
async function tell(world: World, job: string, kind: EventKind, msgId: string): Promise<void> {
  const event = { job, at: timestampNow(), kind };
  const subject = eventSubject(job, kind.case === "phaseChanged" ? "phase" : kind.case);
  await world.streams.publish(subject, JobEventSchema, event, { msgId }).catch((error: unknown) => {
    world.logger.warn("event_not_published", { job, kind: kind.case, error });
  });
}

export async function setPhase(
  world: World,
  name: string,
  to: Pick<JobStatus, "phase" | "reason" | "message">,
): Promise<Job> {
  world.lead.assert();
  let from = JobPhase.UNSPECIFIED;
  const stored = await world.store.change(name, (job) => {
    if (!job.status) return;
    from = job.status.phase;
    Object.assign(job.status, to);
    if (to.phase === JobPhase.RUNNING) job.status.startedAt ??= timestampNow();
    if (isFinished(to.phase)) job.status.finishedAt = timestampNow();
    if (to.reason === "Restarting") job.status.restarts++;
  });
  world.logger.info("job_phase", { job: name, from: JobPhase[from], to: JobPhase[to.phase], reason: to.reason });
  const value = create(PhaseChangedSchema, { from, to: to.phase, reason: to.reason, message: to.message });
  await tell(world, name, { case: "phaseChanged", value }, `${name}/phase/${Date.now()}`);
  return stored;
}
