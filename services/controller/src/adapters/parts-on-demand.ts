// SPDX-License-Identifier: Apache-2.0
import { DEPLOYMENTS, type Kube, type Stored } from "@whetstone/kube";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import { INFERENCE_FLEETS } from "../domain/inference-fleet.ts";
import { needyJobs } from "../domain/next-job.ts";
import type { TrainingJob } from "../domain/training-job.ts";
import type { PartsFacts } from "../domain/training-job-facts.ts";
import { needsRay } from "../domain/training-job-hold.ts";
import { ON_DEMAND } from "../domain/trainer-on-demand.ts";
import type { JobReadiness } from "./job-readiness.ts";

/** All jobs that wait ask the same. */
const FRESH_MS = 1_000;

interface Deps {
  readonly kube: Kube;
  readonly jobs: () => Promise<Job[]>;
  readonly readiness: JobReadiness;
}

/** What is there of engines and trainer that come only when a job needs them. */
export class PartsOnDemand {
  readonly #deps: Deps;
  #kept: { readonly at: number; readonly pods: Promise<number> } | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** @param starting  it is not running, and could if its parts were there */
  async look(job: Stored<TrainingJob>, starting: boolean, signal: AbortSignal): Promise<PartsFacts> {
    const [missing, pods, jobs] = await Promise.all([
      starting ? this.#missing(job, signal) : undefined,
      this.#pods(),
      this.#deps.jobs(),
    ]);
    return { missing, pods, neededBy: needyJobs(jobs)[0]?.spec?.name };
  }

  async #missing(job: Stored<TrainingJob>, signal: AbortSignal): Promise<PartsFacts["missing"]> {
    if (job.spec.suspend) return "engines"; // They go: when it is resumed, it has to wait for them again.
    if (!needsRay(job) && (await this.#deps.readiness.trainer(job, signal))?.ready !== 1) return "trainer";
    return (await this.#deps.readiness.hasEngines()) ? undefined : "engines";
  }

  #pods(): Promise<number> {
    if (this.#kept && Date.now() - this.#kept.at < FRESH_MS) return this.#kept.pods;
    const pods = this.#count();
    this.#kept = { at: Date.now(), pods };
    return pods;
  }

  /** A Deployment that is being deleted is there as long as its pods are. */
  async #count(): Promise<number> {
    const { kube } = this.#deps;
    const [fleets, trainers] = await Promise.all([
      kube.list(INFERENCE_FLEETS),
      kube.list(DEPLOYMENTS, { labels: ON_DEMAND }),
    ]);
    const engines = fleets.filter(({ spec }) => spec.onDemand).map(({ status }) => status?.replicas ?? 0);
    return engines.reduce((sum, count) => sum + count, trainers.length);
  }
}
