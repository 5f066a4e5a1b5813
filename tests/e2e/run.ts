// SPDX-License-Identifier: Apache-2.0
// `make e2e`: the chart on the cluster of KUBECONFIG: checked, installed, trained through, broken, audited, uninstalled.
// The last line is "N passed, N failed"; exit code 0 only when nothing failed.
//   E2E_LOAD_IMAGE     command that brings an image into the cluster, for those it lacks
//   E2E_PARTS          what to do of chart,train,apply,code,sandboxes,learn,demand,faults,r3 (default: all of these), mcp, see mcp-servers.ts,
//                      browsers, which wants the image env-runner-browser, vllm and nodes, see vllm.ts and vllm-nodes.ts
//   E2E_REPORT         file for the JSON of phases and figures
//   E2E_SET            more values of the chart, separated by spaces
//   E2E_KEEP=1         leave it all there at the end
//   E2E_SECCOMP_FOLDER with E2E_NODE, see own-sandbox.ts: own code runs in sandboxes
//   E2E_SANDBOX_PROVIDER=agentSandbox  pods of sandboxes are made by agent-sandbox, where the cluster has it
//   E2E_FAULTS, E2E_FAULT_ROUNDS, E2E_CLUSTER, E2E_KILL, E2E_NODE, E2E_API_DOWN_SECONDS: see faults.ts
import { BROWSER_SETTINGS, trainInBrowsers } from "./browsers.ts";
import { checkChart } from "./chart.ts";
import { attempt } from "./cluster.ts";
import { cutOff, runFaults } from "./faults.ts";
import { checkIsolation } from "./isolation.ts";
import { audit, type Jobs, openJobs, runJob } from "./jobs.ts";
import { trainOnDemand } from "./on-demand.ts";
import { evaluateOwnCode, trainOwnCode } from "./own-code.ts";
import { trainProgram } from "./own-program.ts";
import {
  describeFailure,
  install,
  loadImages,
  makeNamespace,
  NAMESPACE,
  removeNamespace,
  uninstall,
} from "./release.ts";
import { trainAsInReadme } from "./readme.ts";
import { Abandoned, Report } from "./report.ts";
import { KINDS, makeMcpServers, mcpJob, removeMcpServers, trainWithMcp } from "./mcp-servers.ts";
import { makeSandboxes } from "./own-sandbox.ts";
import { makeSandboxPool, sandboxJob, trainInSandboxes } from "./sandboxes.ts";
import { bringDemonstrations, shortJob, teachFormat, teachWay } from "./training.ts";
import { makeVolumes, removeVolumes } from "./volumes.ts";
import { trainWithVllm } from "./vllm.ts";
import { trainOnTwoNodes } from "./vllm-nodes.ts";
import { applyJob } from "./by-kubectl.ts";

const PARTS = (process.env["E2E_PARTS"] || "chart,train,apply,code,sandboxes,learn,demand,faults,r3").split(",");
/** Those that have an installation of their own. */
const APART = ["r3", "vllm", "nodes"];
const FIRST_STEP_SECONDS = 120;

requireTools();
const report = new Report();
try {
  await run();
} catch (error) {
  if (!(error instanceof Abandoned)) throw error;
} finally {
  if (report.count("failed") > 0) process.stderr.write(`${describeFailure()}\n`);
  if (!process.env["E2E_KEEP"]) {
    removeNamespace();
    removeVolumes();
  }
  report.finish(process.env["E2E_REPORT"]);
  process.exitCode = report.count("failed") > 0 || report.count("passed") === 0 ? 1 : 0;
}

async function run(): Promise<void> {
  makeNamespace();
  if (has("chart")) await report.phase("chart: lint, values against the API server, refusals", chart);
  const more = [...(has("browsers") ? BROWSER_SETTINGS : []), ...(has("mcp") ? makeMcpServers() : [])];
  await report.must("images", () => `${loadImages(...more)} loaded`);
  if (!PARTS.every((part) => APART.includes(part))) {
    await trainThrough(more);
    if (has("mcp")) removeMcpServers();
    await report.phase("uninstall, and nothing is left", uninstall);
  }
  if (has("r3")) await threeServers();
  if (has("vllm")) await trainWithVllm(report);
  if (has("nodes")) await trainOnTwoNodes(report);
}

function has(part: string): boolean {
  return PARTS.includes(part);
}

function chart(): string {
  const { matrix, refused } = checkChart(NAMESPACE);
  return `${matrix} sets of values taken, ${refused} refused`;
}

async function trainThrough(more: readonly string[]): Promise<void> {
  const installedAt = performance.now();
  await report.must("whet install", () => install(...makeVolumes(), ...makeSandboxes(), ...more));
  await using jobs = await openJobs();
  if (has("train")) {
    await report.must("GRPO, 3 steps, and the first one", () => firstSteps(jobs, installedAt));
    await report.phase("an environment's network", () => checkIsolation());
    await report.phase("audit of e2e-grpo", () => audit("e2e-grpo"));
    await report.phase("the README's example", trainAsInReadme);
  }
  if (has("apply")) await applied();
  if (has("code")) await ownCode(jobs);
  if (has("sandboxes")) await inSandboxes(jobs);
  if (has("browsers")) await inBrowsers(jobs);
  if (has("mcp")) await withMcp(jobs);
  if (has("learn")) await learn(jobs);
  if (has("demand")) await onDemand(jobs);
  if (has("faults")) await runFaults(report, jobs);
}

async function firstSteps(jobs: Jobs, installedAt: number): Promise<string> {
  let first = NaN;
  const { steps } = await runJob(jobs, shortJob("e2e-grpo"), (step) => {
    if (step === 1) first = (performance.now() - installedAt) / 1000;
  });
  report.figures["first trained step"] = Number(first.toFixed(1));
  if (steps.length !== 3) throw new Error(`3 steps were asked for, ${steps.length} reported`);
  if (!(first <= FIRST_STEP_SECONDS)) throw new Error(`the first trained step took ${first.toFixed(1)} s`);
  return `the first ${first.toFixed(1)} s after the start of the installation`;
}

async function applied(): Promise<void> {
  await report.phase("TrainingJob by kubectl apply", () => applyJob("e2e-applied"));
  await report.phase("audit of e2e-applied", () => audit("e2e-applied"));
}

async function ownCode(jobs: Jobs): Promise<void> {
  await report.phase("own code in TypeScript: whet train", () => trainOwnCode("e2e-code"));
  await report.phase("audit of e2e-code", () => audit("e2e-code"));
  await report.phase("own code in TypeScript: whet eval", evaluateOwnCode);
  await report.phase("a program of one's own as the agent", () => trainProgram("e2e-program", jobs));
  await report.phase("audit of e2e-program", () => audit("e2e-program"));
}

async function inSandboxes(jobs: Jobs): Promise<void> {
  await report.must("a pool of sandboxes", makeSandboxPool);
  for (const kind of ["code", "swe"] as const) {
    await report.phase(`${kind}: sandboxes killed while it trains`, () => trainInSandboxes(kind, jobs));
    await report.phase(`audit of ${sandboxJob(kind)}`, () => audit(sandboxJob(kind)));
  }
}

async function inBrowsers(jobs: Jobs): Promise<void> {
  await report.phase("browsers: 1 to 3 pods, two killed while it trains", () => trainInBrowsers("e2e-browsers", jobs));
  await report.phase("audit of e2e-browsers", () => audit("e2e-browsers"));
}

async function withMcp(jobs: Jobs): Promise<void> {
  for (const kind of KINDS) {
    await report.phase(`mcp: ${kind} servers, killed while it trains`, () => trainWithMcp(kind, jobs));
    await report.phase(`audit of ${mcpJob(kind)}`, () => audit(mcpJob(kind)));
  }
}

async function onDemand(jobs: Jobs): Promise<void> {
  await report.phase("engines and trainer on demand", () => trainOnDemand("e2e-demand", jobs));
  await report.phase("audit of e2e-demand", () => audit("e2e-demand"));
}

async function learn(jobs: Jobs): Promise<void> {
  let model = "";
  await report.phase("demonstrations on the volume", bringDemonstrations);
  const taught = await report.phase("SFT: the format of an answer", async () => {
    const { said, modelPath } = await teachFormat(jobs);
    model = modelPath;
    return said;
  });
  if (!taught) return;
  await report.phase("GRPO: it learns the way", () => teachWay(jobs, model));
  for (const name of ["e2e-sft", "e2e-learn"]) await report.phase(`audit of ${name}`, () => audit(name));
}

/** NATS with three servers: one of them is cut off, or, where that cannot be done, deleted. */
async function threeServers(): Promise<void> {
  const cut = process.env["E2E_NODE"] ? "cut off for 30 s" : "deleted (E2E_NODE is not set)";
  await report.must("whet install with three NATS servers", () => install("nats.replicas=3"));
  await using jobs = await openJobs();
  await report.phase(`one of three NATS servers ${cut}`, async () => {
    await jobs.submit(shortJob("e2e-r3", 30));
    await jobs.reaches("e2e-r3", 2, 120_000);
    const before = await jobs.step("e2e-r3");
    if (process.env["E2E_NODE"]) await cutOff("nats", 30_000);
    else attempt("kubectl", ["-n", NAMESPACE, "delete", "pod", "whetstone-nats-0", "--grace-period=0", "--force"]);
    const meanwhile = (await jobs.step("e2e-r3")) - before;
    await jobs.succeeds("e2e-r3", 180_000);
    return `${meanwhile} steps meanwhile`;
  });
  await report.phase("audit of e2e-r3", () => audit("e2e-r3"));
  await report.phase("uninstall of three, and nothing is left", uninstall);
}

function requireTools(): void {
  const context = attempt("kubectl", ["version", "-o", "json"]);
  const chart = attempt("helm", ["version"]);
  if (context.status === 0 && chart.status === 0) return;
  process.stderr.write(`e2e: needs helm, kubectl and a cluster (KUBECONFIG):\n${context.output}${chart.output}\n`);
  process.exit(2);
}
