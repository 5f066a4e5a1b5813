// SPDX-License-Identifier: Apache-2.0
import { equals, fromJson, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { WhetstoneError } from "@whetstone/core";
import type { Kube, Stored } from "@whetstone/kube"; // Types only: the library is not loaded where there is no cluster.
import { type DesiredState, type Job, type JobSpec, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { JOB_FINALIZER, TRAINING_JOBS, type TrainingJob } from "./schema.ts";
import { trainerAddress } from "../ray/ray-cluster.ts";
import type { JobOrigin, JobStore } from "../../jobs/job-store.ts";

/** What a user may change of a job that exists. Absent: unchanged. */
export interface JobChange {
  readonly suspend?: boolean;
  readonly cancel?: boolean;
  readonly steps?: number | undefined;
  readonly timeout?: JobSpec["timeout"] | undefined;
}

/** `spec.job` and the name as the contract's message. @throws Error with the field, when the JSON is not of its form */
export function jobSpecOf({ metadata, spec }: Stored<TrainingJob>): JobSpec {
  return fromJson(JobSpecSchema, { ...spec.job, name: metadata.name });
}

/** The other way round. */
export function jobJson(spec: JobSpec): JsonObject {
  const { name: _, ...job } = toJson(JobSpecSchema, spec) as JsonObject;
  return job;
}

/** Makes the record of an object, or finds it: whoever comes first. @throws ALREADY_EXISTS when it is another object's */
export async function admitJob(
  store: JobStore,
  object: Stored<TrainingJob>,
  desiredState: DesiredState,
): Promise<{ job: Job; created: boolean }> {
  const { uid } = object.metadata;
  const spec = jobSpecOf(object);
  try {
    const job = await store.create(spec, { ...originOf(object), desiredState });
    return { job, created: true };
  } catch (error) {
    const existing = WhetstoneError.from(error).code === "ALREADY_EXISTS" ? await store.find(spec.name) : undefined;
    if (existing?.uid !== uid) throw error;
    return { job: existing, created: false };
  }
}

function originOf(object: Stored<TrainingJob>): JobOrigin {
  const { uid, generation = 0, creationTimestamp = "" } = object.metadata;
  return {
    uid,
    generation: BigInt(generation),
    createdAt: timestampFromMs(Date.parse(creationTimestamp)),
    maxRestarts: object.spec.failurePolicy?.maxRestarts ?? 0,
    trainerAddress: trainerAddress(object),
  };
}

/** Jobs as objects of the cluster, for the calls of JobService. */
export class TrainingJobs {
  readonly #kube: Kube;

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  /** The object of this spec, made now or before. @throws ALREADY_EXISTS when there is one of another spec */
  async ensure(spec: JobSpec): Promise<Stored<TrainingJob>> {
    const metadata = { name: spec.name, finalizers: [JOB_FINALIZER], labels: { "whetstone.dev/job": spec.name } };
    try {
      return await this.#kube.create(TRAINING_JOBS, { metadata, spec: { job: jobJson(spec) } });
    } catch (error) {
      if (WhetstoneError.from(error).code !== "ALREADY_EXISTS") throw error;
      return await this.#same(spec, error);
    }
  }

  /** @returns generation of the object that has the change; undefined when the job has no object */
  async change(name: string, { steps, timeout, ...flags }: JobChange): Promise<bigint | undefined> {
    const limit = timeout && (toJson(JobSpecSchema, { ...emptySpec(), timeout }) as { timeout?: JsonValue }).timeout;
    const job = { ...(steps !== undefined && { loop: { steps } }), ...(limit !== undefined && { timeout: limit }) };
    const spec = { ...flags, ...(Object.keys(job).length > 0 && { job }) };
    try {
      const { metadata } = await this.#kube.patch(TRAINING_JOBS, name, { spec });
      return BigInt(metadata.generation ?? 0);
    } catch (error) {
      if (WhetstoneError.from(error).code === "NOT_FOUND") return undefined;
      throw error;
    }
  }

  /** Deletes the object with all that belongs to the job; its finalizer does. @returns false: there is none of this uid */
  async delete(name: string, uid: string): Promise<boolean> {
    const there = await this.#kube.get(TRAINING_JOBS, name);
    if (there?.metadata.uid !== uid) return false;
    await this.#kube.patch(TRAINING_JOBS, name, { spec: { cleanup: { runFolder: "Delete" } } });
    await this.#kube.delete(TRAINING_JOBS, name, { uid });
    return true;
  }

  async #same(spec: JobSpec, error: unknown): Promise<Stored<TrainingJob>> {
    const there = await this.#kube.get(TRAINING_JOBS, spec.name);
    if (!there) throw new WhetstoneError("UNAVAILABLE", `job "${spec.name}" was deleted just now: submit it again`);
    if (there.metadata.deletionTimestamp)
      throw new WhetstoneError("CONFLICT", `job "${spec.name}" is being deleted: submit it again when it is gone`);
    if (!equals(JobSpecSchema, jobSpecOf(there), spec))
      throw new WhetstoneError("ALREADY_EXISTS", `job "${spec.name}" exists with another spec; choose another name`, {
        retry: "never",
        cause: error,
      });
    return there;
  }
}

const emptySpec = (): JobSpec => fromJson(JobSpecSchema, {});
