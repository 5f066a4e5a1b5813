// SPDX-License-Identifier: Apache-2.0
import { DEPLOYMENTS, type Kube, PODS, type Stored } from "@whetstone/kube";
import type { JobMirror } from "../../jobs/job-mirror.ts";
import { INFERENCE_FLEETS, LABELS } from "../inference-fleet/schema.ts";
import { jobsThatNeedParts } from "../../loop/next-job.ts";
import type { TrainingJob } from "../training-job/schema.ts";
import type { PartsFacts } from "../training-job/facts.ts";
import { needsRay } from "../training-job/suspend.ts";
import { ON_DEMAND } from "./trainer-deployment.ts";
import type { JobReadiness } from "../training-job/readiness.ts";

/** All jobs that wait ask the same. */
const FRESH_MS = 1_000;

interface Deps {
  readonly kube: Kube;
  readonly jobs: Pick<JobMirror, "all">;
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
    const neededBy = jobsThatNeedParts(await this.#deps.jobs.all())[0]?.spec?.name;
    const [missing, pods] = await Promise.all([
      starting ? this.#missing(job, signal) : undefined,
      this.#pods(neededBy !== undefined),
    ]);
    return { missing, pods, neededBy };
  }

  async #missing(job: Stored<TrainingJob>, signal: AbortSignal): Promise<PartsFacts["missing"]> {
    if (!needsRay(job) && (await this.#deps.readiness.trainer(job, signal))?.ready !== 1) return "trainer";
    return (await this.#deps.readiness.hasEngines()) ? undefined : "engines";
  }

  /** What was counted before they were needed says nothing about what is left afterwards. */
  async #pods(areNeeded: boolean): Promise<number> {
    if (areNeeded) this.#kept = undefined;
    if (areNeeded) return 0;
    if (this.#kept && Date.now() - this.#kept.at < FRESH_MS) return this.#kept.pods;
    const pods = this.#count();
    this.#kept = { at: Date.now(), pods };
    return pods;
  }

  /** Not by a fleet's status, which may be seconds old. A Deployment that is being deleted is there as long as its pods are. */
  async #count(): Promise<number> {
    const { kube } = this.#deps;
    const [fleets, engines, trainers] = await Promise.all([
      kube.list(INFERENCE_FLEETS),
      kube.list(PODS, { labels: LABELS.fleet }),
      kube.list(DEPLOYMENTS, { labels: ON_DEMAND }),
    ]);
    const onDemand = new Set(fleets.filter(({ spec }) => spec.onDemand).map(({ metadata }) => metadata.name));
    return (
      engines.filter(({ metadata }) => onDemand.has(metadata.labels?.[LABELS.fleet] ?? "")).length + trainers.length
    );
  }
}
