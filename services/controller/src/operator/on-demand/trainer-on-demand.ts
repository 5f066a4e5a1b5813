// SPDX-License-Identifier: Apache-2.0
import {
  type Again,
  type Deployment,
  DEPLOYMENTS,
  type Kube,
  recordEvent,
  reflect,
  type Reflector,
  runReconciler,
  type Stored,
} from "@whetstone/kube";
import { Demand } from "./demand.ts";
import { isMadeFrom, ON_DEMAND, POD_TEMPLATES, type PodTemplate, trainerFor } from "./trainer-deployment.ts";
import type { OperatorParts } from "../parts.ts";

/** Jobs' records are in memory: looking is cheap. */
const LOOK_MS = 1_000;

/** Makes the trainer while a job needs it, and takes it away again. */
export async function startTrainerOnDemand(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  if (!parts.config.onDemand) return stack;
  const { kube, logger, metrics } = parts;
  const demand = stack.use(new Demand(parts, signal));
  const reconciler = runReconciler({
    name: "trainer-on-demand",
    reconcile: (name, each) => reconcile(name, each),
    ...{ logger, metrics, signal },
  });
  stack.defer(() => reconciler.close());
  const onChange = (name: string): void => reconciler.enqueue(name);
  const templates = stack.use(reflect(kube, POD_TEMPLATES, { signal, labels: ON_DEMAND, onChange }));
  const deployments = stack.use(reflect(kube, DEPLOYMENTS, { signal, labels: ON_DEMAND, onChange }));

  async function reconcile(name: string, each: AbortSignal): Promise<Again | void> {
    await Promise.all([templates.synced, deployments.synced]);
    const template = templates.get(name);
    if (!template || template.metadata.deletionTimestamp) return; // The garbage collector deletes what it owns.
    await settle({ kube, deployments }, template, trainerFor(template, await demand.now(each)), each);
    return { requeueAfterMs: LOOK_MS };
  }
  return stack;
}

async function settle(
  { kube, deployments }: { readonly kube: Kube; readonly deployments: Reflector<Deployment> },
  template: Stored<PodTemplate>,
  wanted: ReturnType<typeof trainerFor>,
  signal: AbortSignal,
): Promise<void> {
  const { name } = template.metadata;
  const there = deployments.get(name);
  if (there?.metadata.deletionTimestamp) return;
  if (wanted && !isMadeFrom(there, wanted)) {
    await kube.apply(DEPLOYMENTS, wanted, { signal });
    tell(kube, template, "Made", "A job needs the trainer.");
  }
  if (wanted || !there) return;
  // It stays until its pods are gone: they take quota as long.
  await kube.delete(DEPLOYMENTS, name, { uid: there.metadata.uid, propagation: "Foreground", signal });
  tell(kube, template, "Removed", "No job needs the trainer.");
}

function tell(kube: Kube, template: Stored<PodTemplate>, reason: string, message: string): void {
  recordEvent(kube, template, { of: POD_TEMPLATES, reason, message });
}
