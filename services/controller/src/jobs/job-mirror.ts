// SPDX-License-Identifier: Apache-2.0
import { clone } from "@bufbuild/protobuf";
import type { KvChange, KvRecord } from "@whetstone/messaging";
import { type Job, JobSchema } from "@whetstone/proto/jobs/v1/jobs";

interface Source {
  records(): Promise<KvRecord<Job>[]>;
  changes(signal: AbortSignal): AsyncIterable<KvChange<Job>>;
}

interface Known {
  readonly revision: number;
  /** Undefined: it was deleted. Kept, so that an older word of it does not bring it back. */
  readonly job: Job | undefined;
}

/** @param job  undefined: it was deleted */
export type OnJob = (name: string, job: Job | undefined) => void;

/**
 * Every job's newest known record, in memory: who looks at all of them after each change of one must not ask for each of
 * them. A process has one, which its leader follows; the store gives it what this process writes, so that no write is
 * forgotten until the bucket tells of it.
 */
export class JobMirror {
  readonly #source: Source;
  readonly #known = new Map<string, Known>();
  readonly #listeners = new Set<OnJob>();
  /** Whose end ends the following that goes on now. */
  #following: AbortSignal | undefined;
  #filled = pending();

  constructor(source: Source) {
    this.#source = source;
  }

  /** Waits until `follow` has read what is there. @throws what `follow` failed of */
  async all(): Promise<Job[]> {
    await this.#filled.promise;
    return [...this.#known.values()].flatMap(({ job }) => job ?? []);
  }

  /** One that is missing here may still exist. */
  get(name: string): Job | undefined {
    return this.#known.get(name)?.job;
  }

  /** Tells each job that is there when `follow` begins, then each change of one, once. @returns ends it */
  onChange(listener: OnJob): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Until the signal aborts. Can be called again after that. */
  async follow(signal: AbortSignal): Promise<void> {
    this.#known.clear();
    this.#following = signal;
    const filled = (this.#filled = pending());
    try {
      for (const record of await this.#source.records()) this.take(record);
      filled.resolve();
      for await (const change of this.#source.changes(signal))
        this.#keep(change.key, { revision: change.revision, job: change.kind === "put" ? change.value : undefined });
    } catch (error) {
      filled.reject(error);
      if (!signal.aborted) throw error;
    } finally {
      if (this.#following === signal) this.#following = undefined;
    }
  }

  /** What this process wrote. */
  take({ key, value, revision }: KvRecord<Job>): void {
    if (this.#following) this.#keep(key, { revision, job: clone(JobSchema, value) });
  }

  /** What this process deleted. @param revision  the record's last one */
  drop(name: string, revision: number): void {
    if (this.#following && this.#known.get(name)?.revision === revision) this.#set(name, { revision, job: undefined });
  }

  #keep(name: string, known: Known): void {
    if ((this.#known.get(name)?.revision ?? 0) < known.revision) this.#set(name, known);
  }

  #set(name: string, known: Known): void {
    this.#known.set(name, known);
    for (const listener of this.#listeners) listener(name, known.job);
  }
}

/** Nobody has to wait for it. */
function pending(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => undefined);
  return made;
}
