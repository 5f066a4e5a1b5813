// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import type { Checkpoint, Job } from "@whetstone/proto/jobs/v1/jobs";
import type { GetStoredRunResponse, TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";

/** Whoever waits for a list waits for this. */
const LOOK_MS = 20_000;
/** Of a store that does not answer, one request alone takes up to a minute and a half. */
const DELETE_MS = 120_000;

export interface StoredRunsDeps {
  /** The installation's, also for jobs that had one of their own. */
  readonly trainers: readonly Pick<RpcClient<typeof TrainerService>, "getStoredRun" | "deleteStoredRun">[];
  /** What jobs wrote last, by "<job>.policy". */
  readonly policies: { get(key: string): Promise<{ readonly value: PolicyRecord } | undefined> };
}

/** What the object store holds of jobs' runs. Trainers have its keys, the controller has none: it asks. */
export class StoredRuns {
  readonly #deps: StoredRunsDeps;

  constructor(deps: StoredRunsDeps) {
    this.#deps = deps;
  }

  /** @returns undefined for a job whose weights go another way. @throws as the trainer, or UNAVAILABLE where it is away */
  async look(job: Job, signal?: AbortSignal): Promise<GetStoredRunResponse | undefined> {
    const request = await this.#requestOf(job);
    return request && (await this.#ask(request, signal));
  }

  /** `state.json` of the newest checkpoint there; undefined: there is none. @throws as `look` */
  async newestState(job: Job, signal?: AbortSignal): Promise<Uint8Array | undefined> {
    const request = await this.#requestOf(job);
    if (!request) return undefined;
    const { state } = await this.#ask({ ...request, withState: true }, signal);
    return state.length > 0 ? state : undefined;
  }

  /** Safe to repeat. @throws as `look`: then some of it is there still */
  async delete(job: Job, signal?: AbortSignal): Promise<void> {
    const request = await this.#requestOf(job);
    if (!request) return;
    // Each of them may have the job at hand, and lets it go.
    for (const trainer of this.#deps.trainers)
      await trainer.deleteStoredRun(request, { deadlineMs: DELETE_MS, signal });
  }

  /** Those on disk, and those that the store alone has, newest first. */
  async checkpoints(job: Job, onDisk: readonly Checkpoint[]): Promise<{ checkpoints: Checkpoint[]; notice: string }> {
    const there = new Set(onDisk.map(({ step }) => step));
    try {
      const stored = (await this.look(job))?.checkpoints ?? [];
      const all = [...onDisk, ...stored.filter(({ step }) => !there.has(step))];
      return { checkpoints: all.sort((a, b) => b.step - a.step), notice: "" };
    } catch (error) {
      const notice = `what the object store has is not known: ${WhetstoneError.from(error).message}`;
      return { checkpoints: [...onDisk], notice };
    }
  }

  /** Any trainer sees the whole store. */
  async #ask(request: object, signal: AbortSignal | undefined): Promise<GetStoredRunResponse> {
    const asked = this.#deps.trainers.map((trainer) => trainer.getStoredRun(request, { deadlineMs: LOOK_MS, signal }));
    return await Promise.any(asked).catch((error: unknown) => {
      throw error instanceof AggregateError ? error.errors[0] : error;
    });
  }

  /** By what its spec says and by what it wrote: while it is suspended, a spec may change. */
  async #requestOf(job: Job): Promise<{ jobUid: string; url: string } | undefined> {
    const url = (await this.#deps.policies.get(`${job.spec?.name ?? ""}.policy`))?.value.url ?? "";
    const isStored = url.startsWith("s3://");
    if (!isStored && job.spec?.weights?.transport?.kind.case !== "objectStore") return undefined;
    return { jobUid: job.uid, url: isStored ? url : "" };
  }
}
