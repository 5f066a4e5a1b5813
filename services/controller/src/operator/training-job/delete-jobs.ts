// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { type Kube, openKube } from "@whetstone/kube";
import type { Logger } from "@whetstone/telemetry";
import { MANAGED_BY, TRAINING_JOBS } from "./schema.ts";

const LOOK_MS = 1_000;
const WAIT_MS = 240_000;

interface Options {
  readonly waitMs?: number;
  readonly lookMs?: number;
}

/** What `helm uninstall` runs first: afterwards there would be nobody to end jobs and to delete their streams. */
export async function deleteJobsBeforeUninstall(env: NodeJS.ProcessEnv, logger: Logger): Promise<void> {
  using kube = openKube({ logger, namespace: env["WHETSTONE_KUBE_NAMESPACE"] });
  await deleteJobs(kube, logger);
}

/** Deletes every job of the namespace and waits until the controller has let go of the last. @throws DEADLINE_EXCEEDED */
export async function deleteJobs(kube: Kube, logger: Logger, options: Options = {}): Promise<void> {
  const { waitMs = WAIT_MS, lookMs = LOOK_MS } = options;
  const end = performance.now() + waitMs;
  for (let left = await ours(kube); left.length > 0; left = await ours(kube)) {
    if (performance.now() > end) throw tooLate(left, kube.namespace, waitMs);
    for (const name of left) await kube.delete(TRAINING_JOBS, name);
    logger.info("jobs_deleted", { left: left.length });
    await sleep(lookMs);
  }
}

/** None, too, where the kind itself is gone. */
async function ours(kube: Kube): Promise<string[]> {
  if (!(await kube.has(TRAINING_JOBS))) return [];
  const jobs = await kube.list(TRAINING_JOBS);
  return jobs.filter(({ spec }) => (spec.managedBy ?? MANAGED_BY) === MANAGED_BY).map(({ metadata }) => metadata.name);
}

function tooLate(left: readonly string[], namespace: string, waitMs: number): WhetstoneError {
  const text =
    `${left.length} jobs are still there after ${Math.round(waitMs / 1000)} s (${left.slice(0, 5).join(", ")}): is the controller ` +
    `running? To give their streams up: kubectl -n ${namespace} patch trainingjob NAME --type merge -p '{"metadata":{"finalizers":null}}'`;
  return new WhetstoneError("DEADLINE_EXCEEDED", text);
}
