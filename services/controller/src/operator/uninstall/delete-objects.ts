// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { type Kube, type KubeObject, openKube, type ResourceType } from "@whetstone/kube";
import type { Logger } from "@whetstone/telemetry";
import { ENVIRONMENT_POOLS } from "../environment-pool/schema.ts";
import { INFERENCE_FLEETS } from "../inference-fleet/schema.ts";
import { SANDBOX_POOLS } from "../sandbox-pool/schema.ts";
import { MANAGED_BY, TRAINING_JOBS } from "../training-job/schema.ts";

const LOOK_MS = 1_000;
const WAIT_MS = 240_000;
/** Those of the chart and those that users made: no controller would look after their pods any more. */
const POOLS: readonly ResourceType<KubeObject>[] = [ENVIRONMENT_POOLS, SANDBOX_POOLS, INFERENCE_FLEETS];

/** What `helm uninstall` runs first: afterwards there would be nobody to end jobs and to delete their streams. */
export async function deleteBeforeUninstall(env: NodeJS.ProcessEnv, logger: Logger): Promise<void> {
  using kube = openKube({ logger, namespace: env["WHETSTONE_KUBE_NAMESPACE"] });
  await deleteJobs(kube, logger);
  await deletePools(kube, logger);
}

/** Deletes every job of the namespace and waits until the controller has let go of the last. @throws DEADLINE_EXCEEDED */
async function deleteJobs(kube: Kube, logger: Logger): Promise<void> {
  const end = performance.now() + WAIT_MS;
  for (let left = await ours(kube); left.length > 0; left = await ours(kube)) {
    if (performance.now() > end) throw tooLate(left, kube.namespace);
    for (const name of left) await kube.delete(TRAINING_JOBS, name);
    logger.info("jobs_deleted", { left: left.length });
    await sleep(LOOK_MS);
  }
}

/** Their pods are owned by them and go with them. */
async function deletePools(kube: Kube, logger: Logger): Promise<void> {
  for (const kind of POOLS) {
    if (!(await kube.has(kind))) continue;
    const names = (await kube.list(kind)).map(({ metadata }) => metadata.name);
    for (const name of names) await kube.delete(kind, name);
    if (names.length > 0) logger.info("pools_deleted", { kind: kind.kind, names });
  }
}

/** None, too, where the kind itself is gone. */
async function ours(kube: Kube): Promise<string[]> {
  if (!(await kube.has(TRAINING_JOBS))) return [];
  const jobs = await kube.list(TRAINING_JOBS);
  return jobs.filter(({ spec }) => (spec.managedBy ?? MANAGED_BY) === MANAGED_BY).map(({ metadata }) => metadata.name);
}

function tooLate(left: readonly string[], namespace: string): WhetstoneError {
  const text =
    `${left.length} jobs are still there after ${Math.round(WAIT_MS / 1000)} s (${left.slice(0, 5).join(", ")}): is the controller ` +
    `running? To give their streams up: kubectl -n ${namespace} patch trainingjob NAME --type merge -p '{"metadata":{"finalizers":null}}'`;
  return new WhetstoneError("DEADLINE_EXCEEDED", text);
}
