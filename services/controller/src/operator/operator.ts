// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import type { OperatorParts, StartReconciler } from "./parts.ts";

/** One line each; loaded with the client library, only where there is a cluster. */
const RECONCILERS: readonly StartReconciler[] = [
  async (...parts) => (await import("./certificates/reconciler.ts")).startCertificates(...parts),
  async (...parts) => (await import("./inference-fleet/reconciler.ts")).startInferenceFleets(...parts),
  async (...parts) => (await import("./on-demand/trainer-on-demand.ts")).startTrainerOnDemand(...parts),
  async (...parts) => (await import("./environment-pool/reconciler.ts")).startEnvironmentPools(...parts),
  async (...parts) => (await import("./sandbox-pool/reconciler.ts")).startSandboxPools(...parts),
  async (...parts) => (await import("./training-job/reconciler.ts")).startTrainingJobs(...parts),
];

/** Reconciles until the signal aborts; rejects when a reconciler cannot start. */
export async function startOperator(
  parts: OperatorParts,
  signal: AbortSignal,
  reconcilers: readonly StartReconciler[] = RECONCILERS,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  for (const start of reconcilers) {
    if (signal.aborted) return;
    stack.use(await start(parts, signal));
  }
  if (!signal.aborted) await once(signal, "abort");
}
