// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Kube, reflect, type Reflector, setCondition, type Stored } from "@whetstone/kube";
import { flavorsOf, type Placements, placementsOf } from "./placement.ts";
import {
  activity,
  JOB_LABEL,
  PRIORITY_CLASSES,
  RESOURCE_FLAVORS,
  type ResourceFlavor,
  type Workload,
  workloadFacts,
  workloadName,
  type WorkloadCondition,
  workloadOf,
  WORKLOADS,
} from "./workload.ts";
import type { TrainingJob } from "../training-job/schema.ts";
import type { WorkloadFacts } from "../training-job/facts.ts";

/** Workloads of our jobs; nothing is watched before the first job asks for a queue. */
export class Kueue implements Disposable {
  readonly #kube: Kube;
  readonly #signal: AbortSignal;
  readonly #onChange: (job: string) => void;
  #workloads: Reflector<Workload> | undefined;

  constructor(kube: Kube, signal: AbortSignal, onChange: (job: string) => void) {
    this.#kube = kube;
    this.#signal = signal;
    this.#onChange = onChange;
  }

  /** Kueue may come and go while we run: asked each time. */
  isThere(signal: AbortSignal): Promise<boolean> {
    return this.#kube.has(WORKLOADS, { signal });
  }

  async facts(job: Stored<TrainingJob>, signal: AbortSignal): Promise<WorkloadFacts | undefined> {
    const workload = await this.#find(job, signal);
    return workload && workloadFacts(workload);
  }

  async make(job: Stored<TrainingJob>, signal: AbortSignal): Promise<void> {
    const { priorityClassName } = job.spec;
    const found = priorityClassName ? await this.#kube.get(PRIORITY_CLASSES, priorityClassName, { signal }) : undefined;
    if (priorityClassName && !found)
      throw new WhetstoneError("NOT_FOUND", `there is no WorkloadPriorityClass "${priorityClassName}"`);
    await this.#kube.create(WORKLOADS, workloadOf(job, found?.value), { signal }).catch((error: unknown) => {
      if (WhetstoneError.from(error).code !== "ALREADY_EXISTS") throw error;
    });
  }

  /** In the queue, or out of it while the job is suspended. */
  async setActive(job: Stored<TrainingJob>, active: boolean, signal: AbortSignal): Promise<void> {
    await this.#kube.patch(WORKLOADS, workloadName(job), activity(active), { signal });
  }

  /** Where the pods of an admitted job belong. Flavors are the cluster's: reading them is a right of its own. */
  async placements(job: Stored<TrainingJob>, signal: AbortSignal): Promise<Placements> {
    const workload = await this.#find(job, signal);
    if (!workload) return new Map();
    const flavors = new Map<string, ResourceFlavor>();
    for (const name of flavorsOf(workload)) {
      const flavor = await this.#kube.get(RESOURCE_FLAVORS, name, { signal });
      if (!flavor) throw new WhetstoneError("NOT_FOUND", `there is no ResourceFlavor "${name}"`);
      flavors.set(name, flavor);
    }
    return placementsOf(workload, flavors);
  }

  /** Writes conditions beside Kueue's own. */
  async setConditions(
    job: Stored<TrainingJob>,
    changes: readonly WorkloadCondition[],
    signal: AbortSignal,
  ): Promise<void> {
    const workload = await this.#kube.get(WORKLOADS, workloadName(job), { signal });
    if (!workload) return;
    const { resourceVersion } = workload.metadata;
    const conditions = changes.reduce((all, one) => setCondition(all, one), workload.status?.conditions ?? []);
    const isReleased = changes.some(({ type, status }) => type === "QuotaReserved" && !status);
    const status = { conditions, ...(isReleased && { admission: null }) };
    // A list is replaced as a whole: only if nobody has changed it since it was read.
    const patch = { metadata: { resourceVersion }, status };
    await this.#kube.patch(WORKLOADS, workloadName(job), patch, { subresource: "status", signal });
  }

  [Symbol.dispose](): void {
    this.#workloads?.[Symbol.dispose]();
  }

  async #find(job: Stored<TrainingJob>, signal: AbortSignal): Promise<Stored<Workload> | undefined> {
    if (!this.#workloads && !(await this.isThere(signal))) return undefined;
    this.#workloads ??= reflect(this.#kube, WORKLOADS, {
      signal: this.#signal,
      labels: JOB_LABEL,
      onChange: (_, { metadata }) => this.#onChange(metadata.labels?.[JOB_LABEL] ?? ""),
    });
    await this.#workloads.synced;
    // One that was made just now may not be in memory yet.
    return this.#workloads.get(workloadName(job)) ?? (await this.#kube.get(WORKLOADS, workloadName(job), { signal }));
  }
}
