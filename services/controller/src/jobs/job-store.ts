// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { ConfigError, isJobId, WhetstoneError } from "@whetstone/core";
import { type KvChange, type KvRecord, type Nats, openJobs, type TypedKv } from "@whetstone/messaging";
import { DESIRED } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, JobSchema, type JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { JobMirror } from "./job-mirror.ts";
import { type JobPage, JobPages } from "./job-pages.ts";

type OfObject = "uid" | "createdAt" | "desiredState" | "generation" | "maxRestarts" | "trainerAddress";
export type JobOrigin = Partial<Pick<Job, OfObject>>;

/** Jobs in the KV bucket ws-jobs, each under its name. */
export class JobStore {
  readonly #kv: TypedKv<typeof JobSchema>;
  readonly #pages: JobPages;
  /** The one of this process: what is written here shows there at once. */
  readonly mirror = new JobMirror(this);

  private constructor(kv: TypedKv<typeof JobSchema>) {
    this.#kv = kv;
    this.#pages = new JobPages(kv);
  }

  static async open(nats: Nats): Promise<JobStore> {
    return new JobStore(await openJobs(nats, { patient: true }));
  }

  /** @param origin  what another book says of the job, e.g. its object in a cluster */
  async create(spec: JobSpec, origin: JobOrigin = {}): Promise<Job> {
    const job = create(JobSchema, {
      spec,
      uid: randomUUID(),
      createdAt: timestampNow(),
      desiredState: DESIRED.run(),
      status: { phase: JobPhase.QUEUED, episodes: {} },
      ...origin,
    });
    this.mirror.take({ key: spec.name, value: job, revision: await this.#kv.create(spec.name, job) });
    return job;
  }

  /** Forgets the job of this uid, and only that one. What is not there is no error. */
  async remove(name: string, uid: string): Promise<void> {
    const record = await this.#kv.get(name);
    if (record?.value.uid !== uid) return;
    await this.#kv.delete(name, { revision: record.revision });
    this.mirror.drop(name, record.revision);
  }

  /** @throws ConfigError for a text that is no job's name: it would be no key either */
  async find(name: string): Promise<Job | undefined> {
    requireName(name);
    return (await this.#kv.get(name))?.value;
  }

  async get(name: string): Promise<Job> {
    const job = await this.find(name);
    if (!job) throw notFound(name);
    return job;
  }

  /** Asks for every job, one by one: for the mirror alone. */
  async records(): Promise<KvRecord<Job>[]> {
    const records = await Promise.all((await this.#kv.keys()).map((name) => this.#kv.get(name)));
    return records.filter((record) => record !== undefined);
  }

  /** Newest first. @param pageToken  of the page before; empty: the first one */
  list(pageSize: number, pageToken: string): Promise<JobPage> {
    return this.#pages.page(Math.min(pageSize, 1000), pageToken);
  }

  /** Applies a change to the newest record, by compare-and-set. The change must not depend on anything but its argument. */
  async change(name: string, apply: (job: Job) => void): Promise<Job> {
    requireName(name);
    const record = await this.#kv.change(name, (job) => {
      if (!job) throw notFound(name);
      apply(job);
      return job;
    });
    this.mirror.take(record);
    return record.value;
  }

  /** The job now, then after every change. */
  async *watch(name: string, signal: AbortSignal): AsyncGenerator<Job> {
    requireName(name); // Empty, it would be every job's.
    for await (const change of this.#kv.watch(name, signal)) if (change.kind === "put") yield change.value;
  }

  /** Every record now, then every change, deletions too: for the mirror alone. */
  changes(signal: AbortSignal): AsyncIterable<KvChange<Job>> {
    return this.#kv.watch("", signal);
  }
}

function requireName(name: string): void {
  const reason = "must be a job's name: a DNS label of at most 52 characters: a-z, 0-9 and inner dashes";
  if (!isJobId(name)) throw new ConfigError([{ path: "name", reason }]);
}

function notFound(name: string): WhetstoneError {
  return new WhetstoneError("NOT_FOUND", `there is no job "${name}"; \`whet jobs ls\` lists them`);
}
