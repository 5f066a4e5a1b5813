// SPDX-License-Identifier: Apache-2.0
// Faults, one after the other, while one job trains. Each must be seen to have happened; the job must do two more steps
// after it; the audit at the end counts every episode of all of it.
import { setTimeout as delay } from "node:timers/promises";

import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";

import { attempt, command, kubectl } from "./cluster.ts";
import { audit, type Jobs, until } from "./jobs.ts";
import { deleteNow, type Pod, parts, pods } from "./pods.ts";
import { NAMESPACE, RELEASE, rollback, upgrade } from "./release.ts";
import type { Report } from "./report.ts";
import { storageFaults } from "./storage-faults.ts";
import { shortJob } from "./training.ts";
import { poolName, scaleWhileTraining } from "./by-kubectl.ts";

export const JOB = "e2e-faults";
const STEPS = 100_000;
const RECOVERY_MS = 180_000;
const API_DOWN_MS = Number(process.env["E2E_API_DOWN_SECONDS"] || 60) * 1000;

/** `<command> stop|start|restart COMPONENT`: kube-apiserver, kubelet. */
const CLUSTER = process.env["E2E_CLUSTER"];
/** `<command> CONTAINER_ID`: SIGKILL to its process, e.g. "docker exec kind-control-plane ctr -n k8s.io tasks kill -s SIGKILL". */
const KILL = process.env["E2E_KILL"];
/** `<command> iptables …`: where the node's network is, e.g. "docker exec kind-control-plane". */
const NODE = process.env["E2E_NODE"];

/** Only those whose name matches this expression, and all of them so many times over. */
const FAULTS = new RegExp(process.env["E2E_FAULTS"] || "", "i");
const ROUNDS = Number(process.env["E2E_FAULT_ROUNDS"] || 1);
const DRAINED = "whetstone-e2e-drained";

interface Fault {
  readonly name: string;
  /** Why it cannot be done here. */
  readonly lacks?: string | undefined;
  /** Longest time until two more steps; default 180 s. */
  readonly withinMs?: number;
  /** Does it, and answers when it was seen to be done, in milliseconds of performance.now(): recovery is counted from then. */
  inject(): Promise<number | void> | number | void;
}

export async function runFaults(report: Report, jobs: Jobs): Promise<void> {
  await report.must("a job that goes on and on", async () => {
    await jobs.submit(shortJob(JOB, STEPS));
    await jobs.reaches(JOB, 2, 120_000);
  });
  const faults = [...listFaults(), ...storageFaults(JOB, jobs, killProcess)].filter(({ name }) => FAULTS.test(name));
  for (let round = 1; round <= ROUNDS; round++)
    for (const fault of faults) {
      if (fault.lacks) report.skip(fault.name, fault.lacks);
      else if (await hasEnded(jobs)) report.skip(fault.name, `${JOB} has ended, see above`);
      else await report.phase(fault.name, () => survive(fault, report, jobs));
    }
  const pool = poolName();
  if (pool === undefined) report.skip("environments 1 → 4 → 0 → 2", "this installation has no EnvironmentPool");
  else await report.phase("environments 1 → 4 → 0 → 2", () => scaleWhileTraining(pool, JOB, jobs));
  await report.must(`end of ${JOB}`, () => finish(jobs, JOB));
  await report.phase(`audit of ${JOB}`, () => audit(JOB));
}

async function hasEnded(jobs: Jobs): Promise<boolean> {
  const phase = (await jobs.find(JOB))?.status?.phase ?? JobPhase.UNSPECIFIED;
  return [JobPhase.FAILED, JobPhase.CANCELLED, JobPhase.SUCCEEDED].includes(phase);
}

/** Recovered: two more steps than when it had happened, and every pod is ready again. */
async function survive(fault: Fault, report: Report, jobs: Jobs): Promise<string> {
  const before = await jobs.step(JOB);
  const startedAt = performance.now();
  const doneAt = (await fault.inject()) ?? startedAt;
  const known = await jobs.step(JOB);
  await jobs.reaches(JOB, known + 2, fault.withinMs ?? RECOVERY_MS);
  const seconds = (performance.now() - doneAt) / 1000;
  report.figures[fault.name] = Number(seconds.toFixed(1));
  await allPodsReady();
  const meanwhile = doneAt === startedAt ? "" : `, ${known - before} steps meanwhile`;
  return `two more steps after ${seconds.toFixed(1)} s${meanwhile}`;
}

async function allPodsReady(): Promise<void> {
  await until("all pods ready", RECOVERY_MS, () => {
    try {
      return pods().every(({ ready }) => ready);
    } catch {
      return false; // The API server is not back yet.
    }
  });
}

/** The last step is set while it is suspended, as a user would. */
export async function finish(jobs: Jobs, name: string): Promise<string> {
  await jobs.client.suspendJob({ name });
  await until("suspended", 120_000, async () => (await jobs.find(name))?.status?.phase === JobPhase.SUSPENDED);
  const steps = (await jobs.step(name)) + 2;
  await jobs.client.updateJob({ name, steps });
  await jobs.client.resumeJob({ name });
  await jobs.succeeds(name, 120_000);
  return `${steps} steps`;
}

function listFaults(): Fault[] {
  const all = parts();
  return [
    ...all.map((part) => ({ name: `pod deleted: ${part}`, inject: () => deletePod(part) })),
    ...all.map((part) => ({
      name: `kill -9: ${part}`,
      inject: () => killProcess(part),
      lacks: lacks(KILL, "E2E_KILL"),
    })),
    { name: "NATS restarted", inject: restartNats },
    { name: "helm upgrade", inject: upgrade },
    { name: "helm rollback", inject: rollback },
    {
      name: "leader deleted",
      inject: () => loseLeader(deleteNow),
      lacks: leaderPod() ? undefined : "no Lease has a holder",
    },
    { name: "every pod evicted", inject: evictAll },
    { name: "node cordoned and drained", inject: drain, lacks: lacks(CLUSTER, "E2E_CLUSTER") },
    { name: "kubelet restarted", inject: () => component("restart", "kubelet"), lacks: lacks(CLUSTER, "E2E_CLUSTER") },
    { name: `API server down ${API_DOWN_MS / 1000} s`, inject: apiServerDown, lacks: lacks(CLUSTER, "E2E_CLUSTER") },
    { name: "engine's network cut 20 s", inject: () => cutOff("engine", 20_000), lacks: lacks(NODE, "E2E_NODE") },
    { name: "NATS's network cut 20 s", inject: () => cutOff("nats", 20_000), lacks: lacks(NODE, "E2E_NODE") },
  ];
}

function lacks(value: string | undefined, name: string): string | undefined {
  return value ? undefined : `${name} is not set`;
}

/** One pod of a part. */
function pick(part: string): Pod {
  const pod = pods(part)[0];
  if (!pod) throw new Error(`there is no pod of ${part}`);
  return pod;
}

async function deletePod(part: string): Promise<void> {
  const pod = pick(part);
  deleteNow(pod);
  await until(`${pod.name} is gone`, 30_000, () => pods(part).every(({ uid }) => uid !== pod.uid));
}

async function killProcess(part: string): Promise<void> {
  const pod = pick(part);
  for (const { name, id, restarts } of pod.containers) {
    shell(`${KILL} ${id}`);
    await until(`${name} has started again`, 60_000, () => {
      const now = pods(part).find(({ uid }) => uid === pod.uid);
      return now === undefined || (now.containers.find((one) => one.name === name)?.restarts ?? 0) > restarts;
    });
  }
}

function restartNats(): void {
  kubectl("-n", NAMESPACE, "rollout", "restart", `statefulset/${RELEASE}-nats`);
}

function leaderPod(): string | undefined {
  const path = "jsonpath={.items[*].spec.holderIdentity}";
  const { stdout } = attempt("kubectl", ["-n", NAMESPACE, "get", "leases", "-o", path]);
  return pods("controller").find(({ name }) => stdout.includes(name))?.name;
}

async function loseLeader(how: (pod: Pod) => void): Promise<void> {
  const leader = pods("controller").find(({ name }) => name === leaderPod());
  if (!leader) throw new Error("nobody leads");
  how(leader);
  await until("another leader", 60_000, () => ![undefined, leader.name].includes(leaderPod()));
}

/** Through the Eviction API, as a drain does it, without closing the node. */
function evictAll(): void {
  for (const { name } of pods()) {
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: NAMESPACE } };
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`;
    command("kubectl", ["create", "--raw", path, "-f", "-"], JSON.stringify(eviction));
  }
}

/** Of the node's pods only ours go: others may share the cluster. */
function drain(): number {
  const node = kubectl("-n", NAMESPACE, "get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}");
  try {
    kubectl("-n", NAMESPACE, "label", "pods", "--all", `${DRAINED}=yes`);
    kubectl("cordon", node);
    const forced = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=120s"];
    kubectl("drain", node, ...forced, `--pod-selector=${DRAINED}=yes`);
  } finally {
    kubectl("uncordon", node);
  }
  return performance.now();
}

function component(verb: "stop" | "start" | "restart", name: string): void {
  shell(`${CLUSTER} ${verb} ${name}`);
}

async function apiServerDown(): Promise<number> {
  component("stop", "kube-apiserver");
  try {
    if (attempt("kubectl", ["get", "--raw", "/readyz", "--request-timeout=2s"]).status === 0)
      throw new Error("the API server still answers");
    await delay(API_DOWN_MS);
  } finally {
    component("start", "kube-apiserver");
  }
  await until("the API server is back", 60_000, () => attempt("kubectl", ["get", "--raw", "/readyz"]).status === 0);
  return performance.now();
}

/** Nothing to or from the pod, not even to other pods of its node; connections that stand hear nothing. */
export async function cutOff(part: string, forMs: number): Promise<number> {
  const { ip } = pick(part);
  const rules = [`-s ${ip} -j DROP`, `-d ${ip} -j DROP`];
  for (const rule of rules) shell(`${NODE} iptables -I FORWARD 1 ${rule}`);
  try {
    await delay(forMs);
  } finally {
    for (const rule of rules) shell(`${NODE} iptables -D FORWARD ${rule}`);
  }
  return performance.now();
}

function shell(line: string): void {
  command("sh", ["-c", line]);
}
