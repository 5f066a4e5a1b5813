// SPDX-License-Identifier: Apache-2.0
// An installation by the chart, and the pods that KubeRay's own operator makes for its jobs.
import type { JsonObject } from "@bufbuild/protobuf";
import { waitFor } from "@whetstone/testkit";
import { RAY_CLUSTERS, rayPodsOf } from "../../services/controller/src/operator/ray/ray-cluster.ts";
import { TRAINING_JOBS, type TrainingJob } from "../../services/controller/src/operator/training-job/schema.ts";
import { attempt, command, kubectl } from "../e2e/cluster.ts";
import { NAMESPACE } from "../e2e/release.ts";
import { smallJob } from "./local-runtime.ts";

const OPERATOR = ["pods", "--all-namespaces", "-l", "app.kubernetes.io/component=kuberay-operator"];
export const LONG = { timeoutMs: 240_000, intervalMs: 300 };

/** Undefined: KubeRay is there, and runs. */
export function lacksKubeRay(): string | undefined {
  const { output } = attempt("kubectl", ["get", ...OPERATOR, "-o", "jsonpath={.items[*].status.phase}"]);
  const isThere = attempt("kubectl", ["get", `crd/${RAY_CLUSTERS.plural}.ray.io`]).status === 0;
  return isThere && output.includes("Running") ? undefined : "KubeRay does not run here: deploy/kuberay/install.sh";
}

/** The next one finds what this one was about to do. */
export function deleteOperator(): void {
  kubectl("delete", ...OPERATOR, "--wait=false");
}

/** Weights move in each of its steps, though nothing is earned at first; a step takes seconds. */
export function applyRayJob(name: string, steps: number, trainer: JsonObject): void {
  const { name: _, ...small } = smallJob(name, "/data/models/policy", { steps, groups: 16, lag: 1 });
  const optimizer = { learningRate: 0.001 };
  const batching = { miniBatches: 2, epochs: 2 };
  const algorithm = { policyGradient: { groupSize: 8, entropyCoefficient: 0.01, optimizer, batching } };
  const { apiVersion, kind } = TRAINING_JOBS;
  const spec = { trainer, job: { ...small, algorithm } };
  const object = { apiVersion, kind, metadata: { name, namespace: NAMESPACE }, spec };
  command("kubectl", ["apply", "-f", "-"], JSON.stringify(object));
}

export function statusOf(name: string): NonNullable<TrainingJob["status"]> {
  const { status = {} } = JSON.parse(
    kubectl("-n", NAMESPACE, "get", `trainingjob/${name}`, "-o", "json"),
  ) as TrainingJob;
  if (["Failed", "Invalid"].includes(status.state ?? ""))
    throw new Error(`${name} is ${status.state}: ${status.message}`);
  return status;
}

/** What the condition TrainerReady says, in one line. */
export function trainerSaid(name: string): string {
  const { status, reason, message } = statusOf(name).conditions?.find(({ type }) => type === "TrainerReady") ?? {};
  return `${status}/${reason}: ${message}`;
}

export async function reachesStep(name: string, step: number): Promise<void> {
  await waitFor(() => (statusOf(name).step ?? 0) >= step, { ...LONG, what: `step ${step} of ${name}` });
}

/** Those of KubeRay that are not going, by name. */
export function rayPods(job: string, type: "head" | "worker"): string[] {
  const labels = `${rayPodsOf(job)},ray.io/node-type=${type}`;
  const { items } = JSON.parse(kubectl("-n", NAMESPACE, "get", "pods", "-l", labels, "-o", "json")) as {
    items: { metadata: { name: string; deletionTimestamp?: string } }[];
  };
  return items.filter(({ metadata }) => !metadata.deletionTimestamp).map(({ metadata }) => metadata.name);
}

/** Processes of a pod that are ranks. */
export function ranksIn(pod: string): number {
  const count = "grep -alE 'ray::_[R]ank' /proc/[0-9]*/cmdline 2>/dev/null | wc -l";
  return Number(kubectl("-n", NAMESPACE, "exec", pod, "-c", "trainer", "--", "sh", "-c", count));
}

/** What Ray says to somebody who has reached its port. */
export function askRayWithoutToken(head: string): string {
  const ask = "env -u RAY_AUTH_TOKEN RAY_AUTH_MODE=disabled timeout 40 ray status";
  return attempt("kubectl", ["-n", NAMESPACE, "exec", head, "-c", "trainer", "--", "sh", "-c", ask]).output;
}

/** As if its node were gone: nobody is told. */
export function killPod(pod: string): void {
  kubectl("-n", NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force", "--wait=false");
}

export interface Retrained {
  readonly same: boolean;
  readonly versions: readonly { version: number; published: string | null; retrained: string }[];
}

/** All steps done again in one pod, by as many ranks, from the ledger's manifests and the sealed episodes. */
export async function retrainInPod(job: string, steps: number, ranks: number, image: string): Promise<Retrained> {
  const name = `${job}-again`;
  const nats = "tls://whetstone-nats:4222";
  const args = ["whetstone_trainer.retrain", job, "--from=0", `--to=${steps}`, `--nats=${nats}`, "--runs=/data/runs"];
  const labels = { "app.kubernetes.io/name": "whetstone", "app.kubernetes.io/instance": "whetstone" };
  const container = {
    ...{ name: "retrain", image, imagePullPolicy: "IfNotPresent" },
    args: [...args, "--backend=verl", `--ranks=${ranks}`],
    env: [{ name: "WHETSTONE_TLS_PATH", value: "/tls" }],
    resources: { requests: { cpu: "100m", memory: "1Gi" } },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    volumeMounts: [
      { name: "data", mountPath: "/data" },
      { name: "tls", mountPath: "/tls", readOnly: true },
    ],
  };
  const spec = {
    ...{ restartPolicy: "Never", automountServiceAccountToken: false, containers: [container] },
    securityContext: {
      ...{ runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001, seccompProfile: { type: "RuntimeDefault" } },
    },
    volumes: [
      { name: "data", persistentVolumeClaim: { claimName: "whetstone-data" } },
      { name: "tls", secret: { secretName: "whetstone-client", defaultMode: 0o440 } },
    ],
  };
  // NATS lets in whom it knows by this label.
  const metadata = { name, namespace: NAMESPACE, labels: { ...labels, "app.kubernetes.io/component": "trainer-verl" } };
  command("kubectl", ["apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata, spec }));
  try {
    return await answerOf(name);
  } finally {
    // Its volume could not go before it.
    kubectl("-n", NAMESPACE, "delete", "pod", name, "--grace-period=1");
  }
}

async function answerOf(name: string): Promise<Retrained> {
  const phase = () => kubectl("-n", NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}");
  await waitFor(() => /Succeeded|Failed/.test(phase()), { ...LONG, what: `the end of ${name}` });
  const log = kubectl("-n", NAMESPACE, "logs", name);
  const answer = log.split("\n").findLast((line) => line.startsWith('{"job"'));
  if (answer === undefined) throw new Error(`${name} says no result: ${log.slice(-2000)}`);
  return JSON.parse(answer) as Retrained;
}
