// SPDX-License-Identifier: Apache-2.0
import { clone } from "@bufbuild/protobuf";
import { sleep } from "@whetstone/core";
import { failedWrite, type Nats, writeRefusal } from "@whetstone/messaging";
import { type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Logger } from "@whetstone/telemetry";

const LOOK_MS = 2_000;
/** Without a monitoring port every look is a write. */
const WRITE_EVERY_MS = 5_000;
export const REFUSES_WRITES = "NatsRefusesWrites";

interface Options {
  readonly nats: Nats;
  /** URLs of monitoring ports. Empty: a write of our own is tried. */
  readonly monitors: readonly string[];
  readonly logger: Logger;
  /** Between two looks; default 2,000. */
  readonly lookMs?: number;
}

/**
 * Whether NATS refuses writes, looked at by itself and kept in memory: the records of jobs lie in NATS, so none of them could
 * say it. It is laid over what is read of them.
 */
export class NatsWatch implements AsyncDisposable {
  readonly #options: Options;
  readonly #stop = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #looking: Promise<void>;
  #refusal: string | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#looking = this.#look().catch((error: unknown) => {
      if (!this.#stop.signal.aborted) options.logger.error("nats_watch_failed", { error });
    });
  }

  /** For people, with what to do. Undefined: it takes writes, as far as can be told. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** @returns ends it */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A job that waits or runs, with the reason why it cannot go on. */
  overlay(job: Job): Job {
    const phase = job.status?.phase ?? JobPhase.UNSPECIFIED;
    if (this.#refusal === undefined || !STANDS_STILL.includes(phase)) return job;
    const told = clone(JobSchema, job);
    if (told.status) Object.assign(told.status, { reason: REFUSES_WRITES, message: this.#refusal });
    return told;
  }

  /** Each job of a watch, and the newest one again when NATS begins or ends to refuse writes. */
  async *withChanges(jobs: AsyncIterable<Job>, signal: AbortSignal): AsyncGenerator<Job> {
    let wake = Promise.withResolvers<void>();
    const off = this.onChange(() => wake.resolve());
    const records = jobs[Symbol.asyncIterator]();
    let newest: Job | undefined;
    let next = records.next();
    next.catch(() => undefined);
    try {
      while (!signal.aborted) {
        const came = await Promise.race([next, wake.promise]);
        if (came === undefined) wake = Promise.withResolvers<void>();
        else if (came.done) return;
        else {
          newest = came.value;
          next = records.next();
          next.catch(() => undefined);
        }
        if (newest) yield this.overlay(newest);
      }
    } finally {
      off();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { monitors, nats, lookMs } = this.#options;
    const { signal } = this.#stop;
    const pauseMs = lookMs ?? (monitors.length > 0 ? LOOK_MS : WRITE_EVERY_MS);
    for (; !signal.aborted; await sleep(pauseMs, signal)) {
      const refusals = await Promise.all(monitors.map((monitor) => writeRefusal(monitor, signal)));
      const why = monitors.length > 0 ? refusals.find((refusal) => refusal !== undefined) : await failedWrite(nats);
      this.#take(why);
    }
  }

  #take(why: string | undefined): void {
    const refusal =
      why && `NATS refuses writes: ${why}. Free space on its volume; it is started again then, and jobs go on.`;
    if (refusal === this.#refusal) return;
    this.#refusal = refusal;
    if (refusal) this.#options.logger.error("nats_refuses_writes", { why });
    else this.#options.logger.info("nats_takes_writes", {});
    for (const listener of this.#listeners) listener();
  }
}

const STANDS_STILL: readonly JobPhase[] = [JobPhase.QUEUED, JobPhase.RUNNING];
