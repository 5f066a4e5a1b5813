// SPDX-License-Identifier: Apache-2.0
// What users do with kubectl: apply a TrainingJob, scale a pool.
import type { JsonObject } from "@bufbuild/protobuf";

import { attempt, command, kubectl } from "./cluster.ts";
import { type Jobs, until } from "./jobs.ts";
import { NAMESPACE } from "./release.ts";
import { shortJob } from "./training.ts";

const API = "whetstone.dev/v1alpha1";
const SCALES = [4, 0, 2];

/** `kubectl apply` of a job; its object tells how it goes. */
export async function applyJob(name: string): Promise<string> {
  const { name: _, ...job } = shortJob(name) as JsonObject & { name: string };
  const object = { apiVersion: API, kind: "TrainingJob", metadata: { name, namespace: NAMESPACE }, spec: { job } };
  command("kubectl", ["apply", "-f", "-"], JSON.stringify(object));
  const read = (path: string): string =>
    attempt("kubectl", ["-n", NAMESPACE, "get", `trainingjob/${name}`, "-o", `jsonpath={${path}}`]).stdout;
  await until(`${name} succeeds`, 120_000, () => {
    const state = read(".status.state");
    if (/^(Failed|Invalid|Cancelled)$/.test(state)) throw new Error(`${name} is ${state}: ${read(".status.message")}`);
    return state === "Succeeded";
  });
  return `${read(".status.state")}, ${read(".status.progress")}`;
}

/** Undefined: this installation has no pool that can be scaled. */
export function poolName(): string | undefined {
  const { status, stdout } = attempt("kubectl", ["-n", NAMESPACE, "get", "environmentpools", "-o", "name"]);
  return status === 0 && stdout.trim() !== "" ? stdout.trim().split("\n")[0] : undefined;
}

/** 1 → 4 → 0 → 2 while the job trains; it must go on wherever there is one. */
export async function scaleWhileTraining(pool: string, job: string, jobs: Jobs): Promise<string> {
  const seconds: string[] = [];
  for (const replicas of SCALES) {
    const began = performance.now();
    kubectl("-n", NAMESPACE, "scale", pool, `--replicas=${replicas}`);
    await until(`${replicas} env-runners`, 120_000, () => readyOf(pool) === replicas);
    seconds.push(`${replicas} after ${((performance.now() - began) / 1000).toFixed(1)} s`);
    if (replicas > 0) await jobs.reaches(job, (await jobs.step(job)) + 2, 120_000);
  }
  return seconds.join(", ");
}

function readyOf(pool: string): number {
  const path = "jsonpath={.status.ready} {.status.replicas}";
  const [ready, all] = kubectl("-n", NAMESPACE, "get", pool, "-o", path).split(" ").map(Number);
  return ready === all ? (ready ?? 0) : -1;
}
