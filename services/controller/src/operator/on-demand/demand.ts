// SPDX-License-Identifier: Apache-2.0
import type { Kube } from "@whetstone/kube";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import type { JobMirror } from "../../jobs/job-mirror.ts";
import type { Placements } from "../kueue/placement.ts";
import type { Need } from "./need.ts";
import { deletionNeedsTrainer, jobsThatNeedParts } from "../../loop/next-job.ts";
import { TRAINING_JOBS } from "../training-job/schema.ts";
import { Kueue } from "../kueue/workloads.ts";

interface Deps {
  readonly kube: Kube;
  readonly jobs: Pick<JobMirror, "all">;
}

const ANYWHERE: Placements = new Map();

/** What is needed of engines and trainer that are there only on demand. */
export class Demand implements Disposable {
  readonly #deps: Deps;
  readonly #kueue: Kueue;
  #last: { readonly uid: string; readonly placements: Placements } | undefined;

  constructor(deps: Deps, signal: AbortSignal) {
    this.#deps = deps;
    this.#kueue = new Kueue(deps.kube, signal, () => undefined);
  }

  /** Undefined: no job may run, and none waits for a trainer to be deleted. */
  async now(signal: AbortSignal): Promise<Need | undefined> {
    const all = await this.#deps.jobs.all();
    const jobs = jobsThatNeedParts(all);
    const deletion = deletionNeedsTrainer(all);
    const [first] = jobs;
    if (!first) return deletion ? { engines: false, trainer: true, placements: ANYWHERE } : undefined;
    const trainer = deletion || jobs.some(({ trainerAddress }) => trainerAddress === "");
    return { engines: true, trainer, placements: await this.#placements(first, signal) };
  }

  [Symbol.dispose](): void {
    this.#kueue[Symbol.dispose]();
  }

  /** Pods stay where they are while a job that has lost its quota comes to a stop. */
  async #placements(job: Job, signal: AbortSignal): Promise<Placements> {
    const object = await this.#deps.kube.get(TRAINING_JOBS, job.spec?.name ?? "", { signal });
    if (!object?.spec.queueName || object.metadata.uid !== job.uid) return ANYWHERE;
    const found = await this.#kueue.placements(object, signal);
    if (found.size > 0) this.#last = { uid: job.uid, placements: found };
    return this.#last?.uid === job.uid ? this.#last.placements : ANYWHERE;
  }
}
