// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Kube, Stored } from "@whetstone/kube";
import type { BundleStore } from "@whetstone/messaging";
import type { ModuleCode } from "@whetstone/modules/code";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS } from "../kueue/workload.ts";
import { RAY_CLUSTERS } from "../ray/ray-cluster.ts";
import type { TrainingJob } from "./schema.ts";
import type { Intake } from "./facts.ts";
import { needsRay } from "./suspend.ts";
import { validateJob, type Violation } from "../../jobs/validation/validate-job.ts";
import { jobSpecOf } from "./objects.ts";

interface Deps {
  readonly kube: Kube;
  readonly bundles: BundleStore;
  /** Engines and trainer have to be put where the quota is. */
  readonly config: { readonly onDemand: boolean };
  readonly checkWorld: (spec: JobSpec, module: ModuleCode | undefined) => Promise<Violation[]>;
}

/** The same look at a job as `SubmitJob` takes, and what only a cluster can lack. */
export async function intakeOf(object: Stored<TrainingJob>, deps: Deps, signal: AbortSignal): Promise<Intake> {
  const missing = await whatIsMissing(object, deps, signal);
  if (missing) return missing;
  const read = specOrViolation(object);
  if ("violation" in read) return { kind: "invalid", violations: [read.violation] };
  const violations = validateJob(read.spec);
  if (violations.length > 0) return { kind: "invalid", violations: violations.map(below) };
  try {
    return await lookAround(read.spec, deps, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { kind: "unavailable", message: WhetstoneError.from(error).message };
  }
}

async function lookAround(spec: JobSpec, { bundles, checkWorld }: Deps, signal: AbortSignal): Promise<Intake> {
  const digest = spec.module?.digest;
  const code = digest === undefined ? undefined : await bundles.get(digest, signal);
  if (digest !== undefined && code === undefined) return { kind: "module-missing", digest };
  const found = await checkWorld(spec, digest !== undefined && code ? { digest, code } : undefined);
  if (found.length === 0) return { kind: "valid" };
  const violations = found.map(below);
  return found.every(({ curable }) => curable) ? { kind: "missing", violations } : { kind: "invalid", violations };
}

async function whatIsMissing(
  object: Stored<TrainingJob>,
  deps: Deps,
  signal: AbortSignal,
): Promise<Intake | undefined> {
  const { kube } = deps;
  if (object.spec.queueName && !(await kube.has(WORKLOADS, { signal }))) {
    const message = "spec.queueName needs Kueue (kueue.x-k8s.io/v1beta2), which this cluster does not have.";
    return { kind: "unsupported", reason: "KueueMissing", message };
  }
  if (needsRay(object) && !(await kube.has(RAY_CLUSTERS, { signal }))) {
    const message = "spec.trainer.backend verl needs KubeRay (ray.io/v1), which this cluster does not have.";
    return { kind: "unsupported", reason: "KubeRayMissing", message };
  }
  return object.spec.queueName ? await whatKueueLacks(object, deps, signal) : undefined;
}

/** Both kinds belong to the cluster, so that reading them is a right which the chart gives only when asked. */
async function whatKueueLacks(
  object: Stored<TrainingJob>,
  { kube, config }: Deps,
  signal: AbortSignal,
): Promise<Intake | undefined> {
  const { priorityClassName } = object.spec;
  try {
    if (priorityClassName && !(await kube.get(PRIORITY_CLASSES, priorityClassName, { signal })))
      return { kind: "unavailable", message: `spec.priorityClassName: there is no "${priorityClassName}".` };
    if (needsRay(object) || config.onDemand) await kube.get(RESOURCE_FLAVORS, "any", { signal });
    return undefined;
  } catch (error) {
    if (WhetstoneError.from(error).code !== "PERMISSION_DENIED") throw error;
    const message =
      "The controller needs the chart's kueue.priorityClasses (spec.priorityClassName) or kueue.flavors (verl, onDemand).";
    return { kind: "unavailable", message: `${message} ${WhetstoneError.from(error).message}` };
  }
}

/** JSON that the schema lets through and the contract does not, e.g. a number that its type cannot hold. */
function specOrViolation(object: Stored<TrainingJob>): { spec: JobSpec } | { violation: Violation } {
  try {
    return { spec: jobSpecOf(object) };
  } catch (error) {
    return { violation: { path: "spec.job", reason: error instanceof Error ? error.message : String(error) } };
  }
}

/** Paths in an object start at its root. */
function below(violation: Violation): Violation {
  const { path } = violation;
  return { ...violation, path: path === "name" ? "metadata.name" : `spec.job.${path}` };
}
