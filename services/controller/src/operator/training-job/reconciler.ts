// SPDX-License-Identifier: Apache-2.0
/** Reconciles TrainingJob: the desired state into the job's record, the record into the status. The decisions are in plan.ts. */
import { equals } from "@bufbuild/protobuf";
import {
  type Again,
  type Kube,
  type Reconciler,
  recordEvent,
  reflect,
  type Reflector,
  runReconciler,
  type Stored,
} from "@whetstone/kube";
import { type Job, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { intakeOf } from "./intake.ts";
import { JobReadiness, type Looks } from "./readiness.ts";
import { Kueue } from "../kueue/workloads.ts";
import { PartsOnDemand } from "../on-demand/parts-on-demand.ts";
import { jobSpecOf } from "./objects.ts";
import { TRAINING_JOBS, type TrainingJob } from "./schema.ts";
import { isEnded, type JobFacts, recordFacts } from "./facts.ts";
import { needsRay } from "./suspend.ts";
import { type JobPlan, needsIntake, plan } from "./plan.ts";
import { unlessGone } from "../gone.ts";
import { JobActions } from "./carry-out.ts";
import { isSameStatus, mayWrite } from "../status-writes.ts";
import type { OperatorParts } from "../parts.ts";

const QUIET_MS = 5_000;
const NO_LOOKS: Looks = { trainer: undefined, engines: undefined, environments: undefined };

export async function startTrainingJobs(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const jobs = new TrainingJobReconciler(parts, signal);
  await jobs.start();
  return jobs;
}

class TrainingJobReconciler implements AsyncDisposable {
  readonly #parts: OperatorParts;
  readonly #kube: Kube;
  readonly #signal: AbortSignal;
  readonly #objects: Reflector<TrainingJob>;
  readonly #reconciler: Reconciler;
  readonly #readiness: JobReadiness;
  readonly #onDemand: PartsOnDemand;
  readonly #kueue: Kueue;
  readonly #actions: JobActions;
  readonly #wroteAt = new Map<string, number>();
  /** What is heard of beside the objects: records, and what is said in every job's status. */
  readonly #listens = new DisposableStack();

  constructor(parts: OperatorParts, signal: AbortSignal) {
    this.#parts = parts;
    this.#kube = parts.kube;
    this.#signal = signal;
    const { logger, metrics, kube, fleetClient, trainerClient } = parts;
    this.#readiness = new JobReadiness({ kube, fleetClient, trainerClient });
    this.#onDemand = new PartsOnDemand({ ...parts, readiness: this.#readiness });
    this.#reconciler = runReconciler({
      name: "training-job",
      reconcile: (name, each) => this.#reconcile(name, each),
      ...{ logger, metrics, signal },
    });
    const enqueue = (name: string): void => this.#reconciler.enqueue(name);
    this.#kueue = new Kueue(kube, signal, enqueue);
    this.#actions = new JobActions(parts, this.#kueue);
    this.#objects = reflect(kube, TRAINING_JOBS, { signal, onChange: enqueue });
  }

  async start(): Promise<void> {
    // Records change by other replicas and by the loop.
    this.#listens.defer(this.#parts.jobs.onChange((name) => this.#reconciler.enqueue(name, "low")));
    const all = (): void => this.#objects.all().forEach(({ metadata }) => this.#reconciler.enqueue(metadata.name));
    this.#listens.defer(this.#parts.natsWatch.onChange(all));
    this.#listens.use(this.#parts.notices.follow(all));
    await this.#objects.synced.catch((error: unknown) => {
      if (!this.#signal.aborted) throw error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listens.dispose();
    this.#objects[Symbol.dispose]();
    this.#kueue[Symbol.dispose]();
    await this.#reconciler.close();
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<Again | void> {
    await this.#objects.synced;
    const object = this.#objects.get(name);
    if (!object) return void this.#wroteAt.delete(name);
    const facts = await this.#facts(object, signal);
    const made = plan(object, facts);
    for (const action of made.actions) await this.#actions.carryOut(object, action, signal);
    const laterMs = await this.#writeStatus(object, made, signal);
    const requeueAfterMs = Math.min(made.requeueAfterMs ?? Infinity, laterMs ?? Infinity);
    return Number.isFinite(requeueAfterMs) ? { requeueAfterMs } : undefined;
  }

  async #facts(object: Stored<TrainingJob>, signal: AbortSignal): Promise<JobFacts> {
    const { uid } = object.metadata;
    const job = await this.#record(object);
    const record = job && recordFacts(job);
    const own = job?.uid === uid ? job : undefined;
    const running = record?.phase === "RUNNING" ? own : undefined;
    const workload = object.spec.queueName ? await this.#kueue.facts(object, signal) : undefined;
    return {
      nowMs: Date.now(),
      record,
      isSpecChanged: own !== undefined && isChanged(object, own),
      intake: needsIntake(object, record) ? await intakeOf(object, this.#parts, signal) : { kind: "unknown" },
      workload,
      parts: await this.#partsOf(object, { record, workload }, signal),
      ...(running ? await this.#readiness.look(object, signal) : await this.#idleLooks(object, signal)),
      checkpoint: running && (await this.#checkpoint(object, running)),
      natsRefusal: this.#parts.natsWatch.refusal,
      notices: this.#parts.notices.all().map(({ message }) => message),
    };
  }

  /** What is not in memory, or is another object's, may just not have been heard of yet. */
  async #record({ metadata: { name, uid } }: Stored<TrainingJob>): Promise<Job | undefined> {
    const known = this.#parts.jobs.get(name);
    return known?.uid === uid ? known : await this.#parts.store.find(name);
  }

  /** A job that does not run asks nobody, except for the cluster that it may be waiting for. */
  async #idleLooks(object: Stored<TrainingJob>, signal: AbortSignal): Promise<Looks> {
    if (!needsRay(object)) return NO_LOOKS;
    return { ...NO_LOOKS, trainer: await this.#readiness.trainer(object, signal) };
  }

  async #partsOf(
    object: Stored<TrainingJob>,
    { record, workload }: Pick<JobFacts, "record" | "workload">,
    signal: AbortSignal,
  ): Promise<JobFacts["parts"]> {
    if (!this.#parts.config.onDemand) return undefined;
    const waits = object.spec.queueName !== undefined && !workload?.admitted;
    const stands = !object.spec.suspend && (!record || (record.phase !== "RUNNING" && !isEnded(record)));
    return await this.#onDemand.look(object, stands && !waits, signal);
  }

  async #checkpoint({ status }: Stored<TrainingJob>, job: Job): Promise<JobFacts["checkpoint"]> {
    if (status?.lastCheckpoint && status.step === job.status?.step) return undefined; // The status keeps it.
    const [newest] = await this.#parts.records.checkpoints(job);
    return newest && { step: newest.step, path: newest.path };
  }

  /** @returns when to write what is not worth a write yet */
  async #writeStatus(
    object: Stored<TrainingJob>,
    { status }: JobPlan,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { name } = object.metadata;
    if (!status || isSameStatus(object.status, status)) return undefined;
    const sinceMs = Date.now() - (this.#wroteAt.get(name) ?? 0);
    if (!mayWrite(object.status, status, sinceMs)) return QUIET_MS - sinceMs;
    this.#wroteAt.set(name, Date.now());
    await this.#kube.applyStatus(TRAINING_JOBS, { metadata: { name }, status }, { signal }).catch(unlessGone);
    this.#tell(object, status);
    return undefined;
  }

  /** People read in events what programs read in conditions. */
  #tell(object: Stored<TrainingJob>, { state = "Pending", message = "" }: NonNullable<TrainingJob["status"]>): void {
    if (object.status?.state === state) return;
    const type = state === "Failed" || state === "Invalid" ? "Warning" : "Normal";
    recordEvent(this.#kube, object, {
      of: TRAINING_JOBS,
      type,
      reason: state,
      message: message || `The job is ${state}.`,
    });
  }
}

/** What cannot be read was refused by the record's maker, too. */
function isChanged(object: Stored<TrainingJob>, job: Job): boolean {
  return job.spec !== undefined && !equals(JobSpecSchema, jobSpecOf(object), job.spec);
}
