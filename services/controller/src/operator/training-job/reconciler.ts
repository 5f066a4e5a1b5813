// SPDX-License-Identifier: Apache-2.0
/** Reconciles TrainingJob: the desired state into the job's record, the record into the status. The decisions are in plan.ts. */
import { equals } from "@bufbuild/protobuf";
import type { Stored } from "@whetstone/kube";
import { type Job, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { intakeOf } from "./intake.ts";
import { JobReadiness, type Looks } from "./readiness.ts";
import { Kueue } from "../kueue/workloads.ts";
import { PartsOnDemand } from "../on-demand/parts-on-demand.ts";
import { jobSpecOf } from "./objects.ts";
import { TRAINING_JOBS, type TrainingJob } from "./schema.ts";
import { isEnded, type JobFacts, recordFacts } from "./facts.ts";
import { needsRay } from "./suspend.ts";
import { needsIntake, plan } from "./plan.ts";
import { JobActions } from "./carry-out.ts";
import { type Look, ObjectReconciler } from "../object-reconciler.ts";
import type { OperatorParts } from "../parts.ts";

const NO_LOOKS: Looks = { trainer: undefined, engines: undefined, environments: undefined };

export async function startTrainingJobs(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const jobs = new TrainingJobReconciler(parts, signal);
  await jobs.start();
  return jobs;
}

class TrainingJobReconciler extends ObjectReconciler<TrainingJob> {
  readonly #readiness: JobReadiness;
  readonly #onDemand: PartsOnDemand;
  readonly #kueue: Kueue;
  readonly #actions: JobActions;

  constructor(parts: OperatorParts, signal: AbortSignal) {
    super(parts, signal, { name: "training-job", type: TRAINING_JOBS, isFinalized: true });
    this.#readiness = new JobReadiness(parts);
    this.#onDemand = new PartsOnDemand({ ...parts, readiness: this.#readiness });
    this.#kueue = this.resources.use(new Kueue(parts.kube, signal, (name) => this.enqueue(name)));
    this.#actions = new JobActions(parts, this.#kueue);
  }

  /** Beside the objects: records, which other replicas and the loop change, and what is said in every job's status. */
  override async start(): Promise<void> {
    const { jobs, natsWatch, notices } = this.parts;
    const all = (): void => this.names().forEach((name) => this.enqueue(name));
    this.resources.defer(jobs.onChange((name) => this.enqueue(name, "low")));
    this.resources.defer(natsWatch.onChange(all));
    this.resources.use(notices.follow(all));
    await super.start();
  }

  protected async look(object: Stored<TrainingJob>, signal: AbortSignal): Promise<Look<TrainingJob>> {
    const made = plan(object, await this.#facts(object, signal));
    for (const action of made.actions) await this.#actions.carryOut(object, action, signal);
    return made;
  }

  protected async forget(): Promise<void> {}

  /** People read in events what programs read in conditions. */
  protected override told(
    object: Stored<TrainingJob>,
    { state = "Pending", message = "" }: NonNullable<TrainingJob["status"]>,
  ): void {
    if (object.status?.state === state) return;
    const type = state === "Failed" || state === "Invalid" ? "Warning" : "Normal";
    this.tell(object, state, message || `The job is ${state}.`, type);
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
      intake: needsIntake(object, record) ? await intakeOf(object, this.parts, signal) : { kind: "unknown" },
      workload,
      parts: await this.#partsOf(object, { record, workload }, signal),
      ...(running ? await this.#readiness.look(object, signal) : await this.#idleLooks(object, signal)),
      checkpoint: running && (await this.#checkpoint(object, running)),
      natsRefusal: this.parts.natsWatch.refusal,
      notices: this.parts.notices.all().map(({ message }) => message),
    };
  }

  /** What is not in memory, or is another object's, may just not have been heard of yet. */
  async #record({ metadata: { name, uid } }: Stored<TrainingJob>): Promise<Job | undefined> {
    const known = this.parts.jobs.get(name);
    return known?.uid === uid ? known : await this.parts.store.find(name);
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
    if (!this.parts.config.onDemand) return undefined;
    const waits = object.spec.queueName !== undefined && !workload?.admitted;
    const stands = !object.spec.suspend && (!record || (record.phase !== "RUNNING" && !isEnded(record)));
    return await this.#onDemand.look(object, stands && !waits, signal);
  }

  async #checkpoint({ status }: Stored<TrainingJob>, job: Job): Promise<JobFacts["checkpoint"]> {
    if (status?.lastCheckpoint && status.step === job.status?.step) return undefined; // The status keeps it.
    const [newest] = await this.parts.records.checkpoints(job);
    return newest && { step: newest.step, path: newest.path };
  }
}

/** What cannot be read was refused by the record's maker, too. */
function isChanged(object: Stored<TrainingJob>, job: Job): boolean {
  return job.spec !== undefined && !equals(JobSpecSchema, jobSpecOf(object), job.spec);
}
