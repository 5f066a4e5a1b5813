// SPDX-License-Identifier: Apache-2.0
// One engine of vLLM (its CPU build) in two pods that share each layer, made by LeaderWorkerSet itself, which must be on the cluster.
// Not among the parts that are done by default: `make images IMAGES=vllm VARIANT=vllm-cpu` first.
import { attempt, kubectl } from "./cluster.ts";
import { audit, openJobs, until } from "./jobs.ts";
import { pods } from "./pods.ts";
import { install, loadImages, NAMESPACE, uninstall } from "./release.ts";
import type { Report } from "./report.ts";
import { makeModels, settings, START_MS, trainWith } from "./vllm.ts";

const SETTINGS = [...settings("--tensor-parallel-size=2"), "engine.nodesPerReplica=2"];
/** Heads that two can share, each of a width that vLLM computes on a CPU. */
const SHAPE = { num_attention_heads: 4, num_key_value_heads: 4, hidden_size: 256, intermediate_size: 704 };
const JOB = "e2e-vllm-nodes";

export async function trainOnTwoNodes(report: Report): Promise<void> {
  const { status } = attempt("kubectl", ["get", "crd", "leaderworkersets.leaderworkerset.x-k8s.io"]);
  if (status !== 0) return report.skip("an engine in two pods", "LeaderWorkerSet is not on this cluster");
  await report.must("images of vLLM", () => `${loadImages(...SETTINGS)} loaded`);
  await report.must("whet install, engines of two pods", () => install(...SETTINGS));
  await report.must("models that two can share", () => makeModels(SHAPE));
  await report.must("0 → 1 engine in two pods", () => scaleTo(1));
  await using jobs = await openJobs();
  await report.must("GRPO, 3 steps, sampled by both", () => trainWith(jobs, JOB));
  await report.phase(`audit of ${JOB}`, () => audit(JOB));
  await report.phase("1 → 0 engines in two pods", () => scaleTo(0));
  await report.phase("uninstall of two nodes, and nothing is left", uninstall);
}

/** Until all pods of so many engines are ready, and there are no others. */
async function scaleTo(replicas: number): Promise<string> {
  const began = performance.now();
  kubectl("-n", NAMESPACE, "scale", "inferencefleet", "default", `--replicas=${replicas}`);
  await until(`${replicas} engines`, START_MS, () => {
    const engines = pods("engine");
    return engines.length === 2 * replicas && engines.every(({ ready }) => ready);
  });
  return `${replicas} after ${((performance.now() - began) / 1000).toFixed(1)} s`;
}
