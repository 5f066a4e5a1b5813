// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { addFinalizer, type Kube, recordEvent, removeFinalizer, type Stored } from "@whetstone/kube";
import { mayReplace } from "@whetstone/messaging/jobs";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import type { Kueue } from "../kueue/workloads.ts";
import { purgeJob } from "../../jobs/deletion/purge-job.ts";
import { admitJob, jobSpecOf } from "./objects.ts";
import { finished, released } from "../kueue/workload.ts";
import { RAY_CLUSTERS, rayClusterName, rayClusterOf } from "../ray/ray-cluster.ts";
import { rayTemplates } from "../ray/ray-templates.ts";
import { JOB_FINALIZER, TRAINING_JOBS, type TrainingJob } from "./schema.ts";
import type { Action, RecordUpdate } from "./action.ts";
import type { OperatorParts } from "../parts.ts";

/** Carries out what was planned for a job: in its record, its object, its streams, and at Kueue and Ray. */
export class JobActions {
  readonly #parts: OperatorParts;
  readonly #kube: Kube;
  readonly #kueue: Kueue;

  constructor(parts: OperatorParts, kueue: Kueue) {
    this.#parts = parts;
    this.#kube = parts.kube;
    this.#kueue = kueue;
  }

  async carryOut(object: Stored<TrainingJob>, action: Action, signal: AbortSignal): Promise<void> {
    const { name, uid } = object.metadata;
    switch (action.kind) {
      case "add-finalizer":
        return void (await addFinalizer(this.#kube, TRAINING_JOBS, object, JOB_FINALIZER));
      case "admit":
        return void (await admitJob(this.#parts.store, object, action.update.desired));
      case "update":
        return this.#update(object, action.update);
      case "purge":
        return this.#purge(object, action.runFolder, signal);
      case "remove-finalizer":
        return removeFinalizer(this.#kube, TRAINING_JOBS, object, JOB_FINALIZER);
      case "delete":
        return void (await this.#kube.delete(TRAINING_JOBS, name, { uid, signal }));
      default:
        return this.#askOthers(object, action, signal);
    }
  }

  async #askOthers(
    object: Stored<TrainingJob>,
    action: Exclude<Action, { kind: "add-finalizer" | "admit" | "update" | "purge" | "remove-finalizer" | "delete" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { name } = object.metadata;
    switch (action.kind) {
      case "make-workload":
        return this.#kueue.make(object, signal);
      case "release-workload":
        return this.#kueue.setConditions(object, released(action.reason, action.message), signal);
      case "set-workload-active":
        return this.#kueue.setActive(object, action.active, signal);
      case "set-workload-condition":
        return this.#kueue.setConditions(object, [action.condition], signal);
      case "finish-workload":
        return this.#kueue.setConditions(object, finished(action.succeeded, action.message), signal);
      case "make-ray-cluster":
        return this.#makeRayCluster(object, signal);
      case "delete-ray-cluster":
        // It stays until its pods are gone: they take quota as long.
        return void (await this.#kube.delete(RAY_CLUSTERS, rayClusterName(name), {
          propagation: "Foreground",
          signal,
        }));
    }
  }

  async #makeRayCluster(object: Stored<TrainingJob>, signal: AbortSignal): Promise<void> {
    const placements = object.spec.queueName ? await this.#kueue.placements(object, signal) : undefined;
    const templates = await rayTemplates(this.#kube, signal);
    await this.#kube.apply(RAY_CLUSTERS, rayClusterOf(object, templates, placements), { signal });
  }

  /** By compare-and-set against what the plan was made from: a record that has moved on is planned for again. */
  async #update(object: Stored<TrainingJob>, update: RecordUpdate): Promise<void> {
    const { name, uid } = object.metadata;
    this.#parts.lead.assert();
    await this.#parts.store.change(name, (record) => {
      if (record.uid === uid && record.generation <= BigInt(update.generation)) apply(record, update, object);
    });
    this.#parts.logger.info("job_record_updated", { job: name, ...update, desired: update.desired.desired });
  }

  async #purge(object: Stored<TrainingJob>, runFolder: boolean, signal: AbortSignal): Promise<void> {
    const { nats, streams, store, storedRuns, config, logger } = this.#parts;
    const { name, uid } = object.metadata;
    // Streams go by name: our copy of the object may be older than another one of the same name.
    const there = await this.#kube.get(TRAINING_JOBS, name);
    if (there?.metadata.uid !== uid) return;
    this.#parts.lead.assert();
    const deps = { nats, streams, store, storedRuns, dataPath: config.dataPath };
    await purgeJob(deps, { name, uid }, { runFolder, signal }).catch((error: unknown) => {
      const { message } = WhetstoneError.from(error);
      recordEvent(this.#kube, object, { of: TRAINING_JOBS, reason: "NotDeletedYet", message, type: "Warning" });
      throw error;
    });
    logger.info("job_deleted", { job: name, uid, runFolder });
  }
}

function apply(record: Job, update: RecordUpdate, object: Stored<TrainingJob>): void {
  record.generation = BigInt(update.generation);
  if (update.takeSpec) record.spec = jobSpecOf(object);
  if (mayReplace(record.desiredState, update.desired)) record.desiredState = update.desired;
}
