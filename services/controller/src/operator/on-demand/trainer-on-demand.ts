// SPDX-License-Identifier: Apache-2.0
import { DEPLOYMENTS, type Stored } from "@whetstone/kube";
import { Demand } from "./demand.ts";
import { isMadeFrom, ON_DEMAND, trainerFor } from "./trainer-deployment.ts";
import { type Look, ObjectReconciler } from "../object-reconciler.ts";
import type { OperatorParts } from "../parts.ts";
import { POD_TEMPLATES, type PodTemplate } from "../pod-template.ts";

/** Jobs' records are in memory: looking is cheap. */
const LOOK_MS = 1_000;

/** Makes the trainer while a job needs it, and takes it away again. */
export function startTrainerOnDemand(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const trainer = parts.config.onDemand ? new TrainerOnDemand(parts, signal) : new AsyncDisposableStack();
  return Promise.resolve(trainer);
}

class TrainerOnDemand extends ObjectReconciler<PodTemplate> {
  readonly #demand = this.resources.use(new Demand(this.parts, this.signal));
  readonly #deployments = this.watch(DEPLOYMENTS, { labels: ON_DEMAND, onChange: (name) => this.enqueue(name) });

  constructor(parts: OperatorParts, signal: AbortSignal) {
    super(parts, signal, { name: "trainer-on-demand", type: POD_TEMPLATES, labels: ON_DEMAND });
  }

  protected async look(template: Stored<PodTemplate>, signal: AbortSignal): Promise<Look<PodTemplate>> {
    const wanted = trainerFor(template, await this.#demand.now(signal));
    const { kube } = this.parts;
    const there = this.#deployments.get(template.metadata.name);
    const isLeaving = there?.metadata.deletionTimestamp !== undefined;
    if (wanted && !isLeaving && !isMadeFrom(there, wanted)) {
      await kube.apply(DEPLOYMENTS, wanted, { signal });
      this.tell(template, "Made", "A job needs the trainer.");
    }
    if (!wanted && there && !isLeaving) {
      const { name, uid } = there.metadata;
      // It stays until its pods are gone: they take quota as long.
      await kube.delete(DEPLOYMENTS, name, { uid, propagation: "Foreground", signal });
      this.tell(template, "Removed", "No job needs the trainer.");
    }
    return { requeueAfterMs: LOOK_MS };
  }

  /** The garbage collector deletes what a template owns. */
  protected async forget(): Promise<void> {}
}
