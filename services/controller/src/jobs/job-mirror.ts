// SPDX-License-Identifier: Apache-2.0
import { clone } from "@bufbuild/protobuf";
import type { KvRecord } from "@whetstone/messaging";
import { type Job, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { JobStore } from "./job-store.ts";

interface Known {
  readonly revision: number;
  /** Undefined: it was deleted. Kept, so that an older word of it does not bring it back. */
  readonly job: Job | undefined;
}

/**
 * Every job's newest known record, in memory: who looks at all of them after each change of one must not ask for each of
 * them. What this process wrote is given to `take`, so that it is never forgotten between the write and the news of it.
 */
export class JobMirror {
  readonly #store: Pick<JobStore, "records" | "changes">;
  readonly #known = new Map<string, Known>();
  #filled = pending();

  constructor(store: Pick<JobStore, "records" | "changes">) {
    this.#store = store;
  }

  /** Waits until `follow` has read what is there. @throws what `follow` failed of */
  async all(): Promise<Job[]> {
    await this.#filled.promise;
    return [...this.#known.values()].flatMap(({ job }) => job ?? []);
  }

  /** Tells each job now, then after every change of it, until the signal aborts. Can be called again after that. */
  async follow(signal: AbortSignal, onChange: (job: Job) => void): Promise<void> {
    this.#known.clear();
    const filled = (this.#filled = pending());
    try {
      for (const record of await this.#store.records()) this.take(record);
      filled.resolve();
      for await (const change of this.#store.changes(signal)) {
        this.#keep(change.key, { revision: change.revision, job: change.kind === "put" ? change.value : undefined });
        if (change.kind === "put") onChange(change.value);
      }
    } catch (error) {
      filled.reject(error);
      if (!signal.aborted) throw error;
    }
  }

  take({ key, value, revision }: KvRecord<Job>): void {
    this.#keep(key, { revision, job: clone(JobSchema, value) });
  }

  #keep(name: string, known: Known): void {
    if ((this.#known.get(name)?.revision ?? 0) < known.revision) this.#known.set(name, known);
  }
}

/** Nobody has to wait for it. */
function pending(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>();
  made.promise.catch(() => undefined);
  return made;
}
