// SPDX-License-Identifier: Apache-2.0
// `make e2e`: the chart on the cluster of KUBECONFIG: checked, installed, trained through, audited, uninstalled.
// E2E_LOAD_IMAGE: command that brings an image into the cluster, for those it lacks. E2E_KEEP=1: leave it all there at the end.
import { attempt } from "./cluster.ts";
import { checkChart } from "./chart.ts";
import { checkIsolation } from "./isolation.ts";
import {
  allReady,
  describeFailure,
  install,
  loadImages,
  makeNamespace,
  NAMESPACE,
  removeNamespace,
  uninstall,
} from "./release.ts";
import { audit, bringDemonstrations, grpoJob, runJob, sftJob } from "./training.ts";

requireTools();
const startedAt = performance.now();
try {
  await run();
  console.log(`e2e: all well after ${seconds(startedAt)} s`);
} catch (error) {
  process.stderr.write(`e2e: failed: ${(error as Error).message}\n${describeFailure()}\n`);
  process.exitCode = 1;
} finally {
  if (!process.env["E2E_KEEP"]) removeNamespace();
}

async function run(): Promise<void> {
  makeNamespace();
  await phase("chart: lint, values against the API server, refusals", () => {
    const { matrix, refused } = checkChart(NAMESPACE);
    return `${matrix} sets of values taken, ${refused} refused`;
  });
  await phase("images", () => `${loadImages()} loaded`);
  await trainThrough();
  await phase("an environment's network", () => checkIsolation());
  await phase("demonstrations", bringDemonstrations);
  await phase("SFT", learn);
  for (const name of ["e2e-grpo", "e2e-sft"]) await phase(`audit of ${name}`, () => soundBooks(name));
  await phase("helm uninstall, and nothing is left", uninstall);
}

async function trainThrough(): Promise<void> {
  const installedAt = performance.now();
  await phase("helm install", install);
  await phase("all pods ready", allReady);
  let firstStep = "";
  await phase("GRPO, 3 steps", async () => {
    const steps = await runJob(grpoJob("e2e-grpo"), (step) => {
      if (step === 1) firstStep = seconds(installedAt);
    });
    if (steps.length !== 3) throw new Error(`3 steps were asked for, ${steps.length} reported`);
  });
  console.log(`${firstStep.padStart(8)} s  from helm install to the first trained step`);
  if (Number(firstStep) > 120) throw new Error("the first trained step took more than 120 s");
}

async function learn(): Promise<string> {
  const losses = (await runJob(sftJob("e2e-sft"))).map(({ metrics }) => metrics["loss"] ?? NaN);
  const [first = NaN, last = NaN] = [losses[0], losses.at(-1)];
  if (!(last < first)) throw new Error(`the loss did not fall: ${losses.join(", ")}`);
  return `loss ${first.toFixed(2)} → ${last.toFixed(2)}`;
}

async function soundBooks(name: string): Promise<string> {
  const { trained, lost, duplicated, stale, unlabelled } = await audit(name);
  return `${trained} trained, lost/duplicated/stale/unlabelled ${lost}/${duplicated}/${stale}/${unlabelled}`;
}

async function phase(name: string, work: () => Promise<string | void> | string | void): Promise<void> {
  const began = performance.now();
  const said = await work();
  console.log(`${seconds(began).padStart(8)} s  ${name}${said ? `: ${said}` : ""}`);
}

function seconds(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1);
}

function requireTools(): void {
  const context = attempt("kubectl", ["version", "-o", "json"]);
  const chart = attempt("helm", ["version"]);
  if (context.status === 0 && chart.status === 0) return;
  process.stderr.write(`e2e: needs helm, kubectl and a cluster (KUBECONFIG):\n${context.output}${chart.output}\n`);
  process.exit(2);
}
