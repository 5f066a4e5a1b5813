// SPDX-License-Identifier: Apache-2.0
// Engines of vLLM (its CPU build) in pods: a model of one's own, a job, 1 → 2 → 1 and a pod deleted while another trains.
// Not among the parts that are done by default: `make images IMAGES=vllm VARIANT=vllm-cpu` first.
import type { JsonObject } from "@bufbuild/protobuf";
import type { StepRecord } from "@whetstone/proto/jobs/v1/jobs";

import { kubectl } from "./cluster.ts";
import { finish } from "./faults.ts";
import { audit, type Jobs, openJobs, runJob, until } from "./jobs.ts";
import { deleteNow, pods } from "./pods.ts";
import { install, loadImages, NAMESPACE, RELEASE, uninstall } from "./release.ts";
import type { Report } from "./report.ts";
import { MODEL, shortJob } from "./training.ts";

const ARGS = ["--enforce-eager", "--block-size=32"];
/** What docs/inference-engines.md says of a CPU. No engine yet: there is no model that it could start with. */
export const settings = (...more: readonly string[]): string[] => [
  "engine.profile=vllm",
  `engine.args={${[...ARGS, ...more].join(",")}}`,
  "engine.env.VLLM_CPU_KVCACHE_SPACE=1",
  "engine.resources.limits.memory=6Gi",
  "engine.replicas=0",
  "model.init=null",
];
/** vLLM reads half of PyTorch and makes its kernels; on two busy cores that takes its time. */
export const START_MS = 400_000;
const STEP_MS = 240_000;
/** Not the one that engines start with: random weights that earn nothing are not changed, and a load that does nothing would not show. */
const TRAINED = "/data/models/trained";
/** Sampled with other weights than the label says, log-probabilities differ by far more. */
const SAME_WEIGHTS = 1e-3;
const JOB = "e2e-vllm-long";

export async function trainWithVllm(report: Report): Promise<void> {
  // Where its proxy keeps what it fetches; an engine of several nodes can have none.
  const values = [...settings(), "engine.weightsVolume.emptyDir.sizeLimit=1Gi"];
  await report.must("images of vLLM", () => `${loadImages(...values)} loaded`);
  await report.must("whet install with vLLM, no engine yet", () => install(...values));
  await report.must("models of one's own on the volume", () => makeModels());
  await report.must("an engine of vLLM serves", () => scaleTo(1));
  await using jobs = await openJobs();
  await report.must("GRPO, 3 steps, sampled by vLLM", () => trainWith(jobs, "e2e-vllm"));
  await report.phase("audit of e2e-vllm", () => audit("e2e-vllm"));
  await report.must("a job that goes on and on, its weights streamed", async () => {
    await jobs.submit({ ...jobOf(JOB, 100_000), weights: { transport: { stream: {} } } });
    await jobs.reaches(JOB, 2, STEP_MS);
  });
  for (const replicas of [2, 1])
    await report.phase(`${replicas === 2 ? "1 → 2" : "2 → 1"} engines of vLLM`, () =>
      scaleWhileTraining(replicas, jobs),
    );
  await report.phase("memory of the engine", () => memory(report));
  await report.phase("pod deleted: the only engine of vLLM", () => loseEngine(jobs));
  await report.must(`end of ${JOB}`, () => finish(jobs, JOB));
  await report.phase(`audit of ${JOB}`, () => audit(JOB));
  await report.phase("uninstall of vLLM, and nothing is left", uninstall);
}

/** One to start engines with, one to be trained. The trainer's pod has the tool and may write to the volume. */
export function makeModels(shape: Readonly<Record<string, number>> = {}): void {
  for (const [seed, folder] of [MODEL, TRAINED].entries()) {
    const call = `init_model(Path(${JSON.stringify(folder)}), "small", ${seed}, **${JSON.stringify(shape)})`;
    const program = `from pathlib import Path\nfrom whetstone_models.init import init_model\n${call}`;
    kubectl("-n", NAMESPACE, "exec", `deployment/${RELEASE}-trainer`, "-c", "trainer", "--", "python", "-c", program);
  }
}

/** Its episodes outlive an engine that is lost: the next one may take longer to start than a minute. */
function jobOf(name: string, steps: number): JsonObject {
  const job = shortJob(name, steps);
  const limits = { ...(job["limits"] as JsonObject), episodeTimeout: `${START_MS / 1000}s` };
  return { ...job, model: { path: TRAINED }, limits };
}

export async function trainWith(jobs: Jobs, name: string): Promise<string> {
  const { steps } = await runJob(jobs, jobOf(name, 3));
  const differences = steps.map(({ metrics }: StepRecord) => metrics["logprob_diff/max"] ?? Infinity);
  const worst = Math.max(...differences);
  if (steps.length !== 3) throw new Error(`3 steps were asked for, ${steps.length} reported`);
  if (!(worst < SAME_WEIGHTS)) throw new Error(`logprob_diff/max: ${differences.join(", ")}`);
  return `logprob_diff/max ${worst.toExponential(1)}`;
}

/** Until so many engines serve, and there are no others. */
async function scaleTo(replicas: number): Promise<string> {
  const began = performance.now();
  kubectl("-n", NAMESPACE, "scale", "inferencefleet", "default", `--replicas=${replicas}`);
  await until(`${replicas} engines`, START_MS, () => {
    const engines = pods("engine");
    return engines.length === replicas && engines.every(({ ready }) => ready);
  });
  return `${replicas} after ${((performance.now() - began) / 1000).toFixed(1)} s`;
}

async function scaleWhileTraining(replicas: number, jobs: Jobs): Promise<string> {
  const before = await jobs.step(JOB);
  const said = await scaleTo(replicas);
  const known = await jobs.step(JOB);
  await jobs.reaches(JOB, known + 2, STEP_MS);
  return `${said}, ${known - before} steps meanwhile`;
}

/** Calls wait for the next one, which has to start from nothing. */
async function loseEngine(jobs: Jobs): Promise<string> {
  const [lost] = pods("engine");
  if (!lost) throw new Error("there is no engine");
  const began = performance.now();
  deleteNow(lost);
  await until("another engine", START_MS, () => pods("engine").some(({ uid, ready }) => uid !== lost.uid && ready));
  const served = (performance.now() - began) / 1000;
  await jobs.reaches(JOB, (await jobs.step(JOB)) + 2, STEP_MS);
  return `served again after ${served.toFixed(1)} s, two more steps after ${((performance.now() - began) / 1000).toFixed(1)} s`;
}

/** Without the files that it has read; the node may have either version of cgroups. */
function memory(report: Report): string {
  const read = "cat /sys/fs/cgroup/memory.stat 2>/dev/null || cat /sys/fs/cgroup/memory/memory.stat";
  const text = kubectl("-n", NAMESPACE, "exec", "default-0", "-c", "engine", "--", "sh", "-c", read);
  const [, bytes = ""] = /^(?:anon|total_rss) (\d+)$/m.exec(text) ?? [];
  const mib = Math.round(Number(bytes || NaN) / 2 ** 20);
  report.figures["MiB of an engine of vLLM"] = mib;
  return `${mib} MiB`;
}
