// SPDX-License-Identifier: Apache-2.0
/**
 * What many objects cost the controller: TrainingJobs that wait, and pools of environments on nodes that run nothing (kwok).
 * Prints what it does on standard error and one JSON line before it clears up.
 *
 *   node tests/load/kube-scale.ts --jobs 500 --pods 5000 --pools 5 --measure 120
 *
 * Needs KUBECONFIG, the custom resources (charts/whetstone-crds), and enough nodes labelled `type: kwok` with the taint
 * `kwok.x-k8s.io/node=fake:NoSchedule`, 250 pods each.
 */
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Gate } from "@whetstone/core";
import { type Kube, NAMESPACES, NODES, openKube } from "@whetstone/kube";
import { createLogger } from "@whetstone/telemetry";
import { freePort } from "@whetstone/testkit";
import { ENVIRONMENT_POOLS } from "../../services/controller/src/operator/environment-pool/schema.ts";
import { TRAINING_JOBS } from "../../services/controller/src/operator/training-job/schema.ts";
import { type Controller, setStage, type Stage } from "../support/controllers.ts";
import { smallJob } from "../support/local-runtime.ts";
import { difference, histogramOf, lists, quantile, readMetrics, requestsOf, type Samples } from "./metrics.ts";

const PODS_PER_NODE = 250;
/** What Node gives itself in the chart's container: half of its 512 MiB. */
const HEAP = "--max-old-space-size=256";
const TICKS_PER_SECOND = 100;
const SETTLE_S = 900;

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "500" },
    pods: { type: "string", default: "5000" },
    pools: { type: "string", default: "5" },
    measure: { type: "string", default: "120" },
    /** Folder for a CPU profile of the controller. */
    profile: { type: "string", default: "" },
  },
});
const wanted = {
  jobs: Number(values.jobs),
  pods: Number(values.pods),
  pools: Number(values.pools),
  measureS: Number(values.measure),
};

const namespace = `a-scale-${process.pid}`;
const say = (text: string): void => void process.stderr.write(`${text}\n`);
using kube = openKube({ logger: createLogger({ component: "kube-scale" }), namespace });
await requireNodes(kube);
await kube.create(NAMESPACES, { metadata: { name: namespace } });
try {
  await using stage = await setStage(namespace);
  const metricsPort = await freePort();
  const controller = await stage.startController("controller", {
    WHETSTONE_METRICS_PORT: String(metricsPort),
    NODE_OPTIONS: [HEAP, ...(values.profile ? ["--cpu-prof", `--cpu-prof-dir=${values.profile}`] : [])].join(" "),
  });
  const report = await measure(stage, controller, metricsPort);
  console.log(JSON.stringify(report));
  await clear();
  if (values.profile) await ended(controller);
} finally {
  await kube.delete(NAMESPACES, namespace);
}

async function measure(stage: Stage, controller: Controller, metricsPort: number): Promise<object> {
  const start = await readMetrics(metricsPort);
  const cpuAtStart = cpuSeconds(controller.pid);
  const startedAt = performance.now();
  await Promise.all([makePools(), makeJobs(stage)]);
  say(`made in ${seconds(startedAt)} s; waiting until all is settled`);
  await settled();
  const settleS = seconds(startedAt);
  const afterwards = await readMetrics(metricsPort);
  const growthCpu = cpuSeconds(controller.pid) - cpuAtStart;
  say(`settled after ${settleS} s; measuring for ${wanted.measureS} s`);
  await delay(15_000);
  const before = { metrics: await readMetrics(metricsPort), cpu: cpuSeconds(controller.pid), at: performance.now() };
  await delay(wanted.measureS * 1000);
  const elapsed = (performance.now() - before.at) / 1000;
  const cpu = cpuSeconds(controller.pid) - before.cpu;
  const steady = difference(await readMetrics(metricsPort), before.metrics);
  return {
    ...{ jobs: wanted.jobs, pods: wanted.pods, pools: wanted.pools, settleS, measuredS: Math.round(elapsed) },
    steady: { cores: round(cpu / elapsed, 3), ...figures(steady, elapsed) },
    growth: { cores: round(growthCpu / settleS, 3), ...figures(difference(afterwards, start), settleS) },
    rssMiB: residentMiB(controller.pid, "VmRSS"),
    peakRssMiB: residentMiB(controller.pid, "VmHWM"),
  };
}

function figures(samples: Samples, elapsedS: number): object {
  const reconciles = histogramOf(samples, "whetstone_reconcile_seconds");
  const total = Object.values(requestsOf(samples)).reduce((sum, count) => sum + count, 0);
  return {
    reconciles: reconciles.count,
    reconcileMs: { p50: toMs(quantile(reconciles, 0.5)), p99: toMs(quantile(reconciles, 0.99)) },
    requests: requestsOf(samples),
    requestsPerSecond: round(total / elapsedS, 2),
    lists: lists(samples),
  };
}

async function requireNodes(client: Kube): Promise<void> {
  const nodes = await client.list(NODES, { labels: "type=kwok" });
  const needed = Math.ceil(wanted.pods / PODS_PER_NODE);
  if (nodes.length >= needed) return;
  say(`needs ${needed} nodes labelled type=kwok for ${wanted.pods} pods, and there are ${nodes.length}`);
  process.exit(2);
}

async function makePools(): Promise<void> {
  const each = Math.floor(wanted.pods / wanted.pools);
  for (let i = 0; i < wanted.pools; i++) {
    const replicas = i === 0 ? wanted.pods - each * (wanted.pools - 1) : each;
    await kube.apply(ENVIRONMENT_POOLS, { metadata: { name: `pool-${i}` }, spec: poolSpec(replicas) as never });
  }
}

function poolSpec(replicas: number): object {
  const securityContext = {
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  };
  const spec = {
    nodeSelector: { type: "kwok" },
    tolerations: [{ key: "kwok.x-k8s.io/node", operator: "Exists", effect: "NoSchedule" }],
    containers: [{ name: "env-runner", image: "nothing:0", securityContext }],
  };
  return { replicas, slotsPerWorker: 16, drain: { deadlineSeconds: 0 }, template: { spec } };
}

async function makeJobs(stage: Stage): Promise<void> {
  const gate = new Gate(8, { maxQueued: wanted.jobs });
  const { name: _, ...job } = smallJob("x", stage.model);
  const one = async (i: number): Promise<void> => {
    const spec = { suspend: true, job: job };
    await kube.apply(TRAINING_JOBS, { metadata: { name: `job-${i}` }, spec });
  };
  await Promise.all(Array.from({ length: wanted.jobs }, (_, i) => gate.run(() => one(i))));
}

/** All pods are ready, all jobs were taken in. */
async function settled(): Promise<void> {
  const until = performance.now() + SETTLE_S * 1000;
  for (let last = ""; performance.now() < until; await delay(3000)) {
    const pools = await kube.list(ENVIRONMENT_POOLS);
    const ready = pools.reduce((sum, { status }) => sum + (status?.ready ?? 0), 0);
    const jobs = (await kube.list(TRAINING_JOBS)).filter(({ status }) => status?.state === "Suspended").length;
    if (ready === wanted.pods && jobs === wanted.jobs) return;
    const now = `${ready} of ${wanted.pods} pods ready, ${jobs} of ${wanted.jobs} jobs suspended`;
    if (now !== last) say(now);
    last = now;
  }
  throw new Error(`not settled after ${SETTLE_S} s`);
}

/** While the controller runs: it takes its finalizer off. */
async function clear(): Promise<void> {
  say("removing everything");
  const gate = new Gate(16, { maxQueued: wanted.jobs });
  const all = [
    ...(await kube.list(TRAINING_JOBS)).map(({ metadata }) => [TRAINING_JOBS, metadata.name] as const),
    ...(await kube.list(ENVIRONMENT_POOLS)).map(({ metadata }) => [ENVIRONMENT_POOLS, metadata.name] as const),
  ];
  await Promise.all(all.map(([type, name]) => gate.run(() => kube.delete(type, name))));
  // Nothing runs in them: one call instead of the garbage collector's thousands.
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  const query = { gracePeriodSeconds: "0" };
  await kube.raw({ verb: "deletecollection", method: "DELETE", path: pods, query, timeoutMs: 120_000 }).catch(String);
  const until = performance.now() + SETTLE_S * 1000;
  while (performance.now() < until && (await kube.list(TRAINING_JOBS)).length > 0) await delay(2000);
}

/** The profile is written at the end of the process. */
async function ended(controller: Controller): Promise<void> {
  controller.kill("SIGTERM");
  for (let i = 0; i < 30 && !controller.exit(); i++) await delay(1000);
}

/** User and system time of a process. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** @param line  VmRSS: now; VmHWM: the most ever */
function residentMiB(pid: number, line: "VmRSS" | "VmHWM"): number {
  const kib = new RegExp(`${line}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0";
  return Math.round(Number(kib) / 1024);
}

function seconds(since: number): number {
  return Math.round((performance.now() - since) / 1000);
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

function toMs(secondsValue: number): number {
  return round(secondsValue * 1000, 1);
}
