// SPDX-License-Identifier: Apache-2.0
// Jobs of code and of repairing a library whose sandboxes are pods, which are killed while it trains. Policies are scripted: all
// that is played must be paid, whatever was killed. Their tasks and libraries reach the pods as artifacts.
import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";

import { repairs, type ScriptedUse, SUMS } from "../support/scripted-episodes.ts";
import { command, kubectl } from "./cluster.ts";
import { refuseReached } from "./isolation.ts";
import { type Jobs, meanSuccess, until } from "./jobs.ts";
import { IMAGES, NAMESPACE } from "./release.ts";
import { inFolder, push, submitScripted } from "./scripted-job.ts";

const POOL = "e2e-sandboxes";
const POOL_LABEL = `whetstone.dev/sandbox-pool=${POOL}`;
/** Only claimed ones have it. */
const CLAIM_LABEL = "whetstone.dev/sandbox-claim";
const WARM = 3;
const KILLS = 4;
const STEPS = 4;
const BETWEEN_KILLS_MS = 1_500;
const JOB_MS = 420_000;

/** A pool whose image has Python, bash, and Node for the probe; waits until some are warm, and looks at what one reaches. */
export async function makeSandboxPool(): Promise<string> {
  const provider = process.env["E2E_SANDBOX_PROVIDER"] || "pods";
  const spec = { image: IMAGES.envRunner, provider, warm: WARM, max: 8, memoryMiB: 1024, diskMiB: 512 };
  const metadata = { name: POOL, namespace: NAMESPACE };
  const pool = { apiVersion: "whetstone.dev/v1alpha1", kind: "SandboxPool", metadata, spec };
  command("kubectl", ["apply", "-f", "-"], JSON.stringify(pool));
  await until(`${WARM} warm sandboxes`, 120_000, () => warm() >= WARM);
  return `${WARM} warm, by ${provider}; ${refuseReached(POOL_LABEL)}`;
}

function warm(): number {
  return Number(kubectl("-n", NAMESPACE, "get", `sandboxpool/${POOL}`, "-o", "jsonpath={.status.warm}") || 0);
}

export function sandboxJob(kind: ScriptedUse["kind"]): string {
  return `e2e-sandboxed-${kind}`;
}

/** @throws when less than all was paid, or too few sandboxes could be killed */
export async function trainInSandboxes(kind: ScriptedUse["kind"], jobs: Jobs): Promise<string> {
  const name = sandboxJob(kind);
  await inFolder(async (folder) => {
    submitScripted(folder, await useOf(kind, folder), { name, steps: STEPS });
  });
  const killed = await killSandboxes(name, jobs);
  const job = await jobs.succeeds(name, JOB_MS);
  const paid = await meanSuccess(jobs, name);
  if (paid < 0.999) throw new Error(`a policy that knows every answer was paid for ${paid} of its episodes`);
  return `${job.status?.step} steps, all of it paid, ${killed} sandboxes killed meanwhile`;
}

async function useOf(kind: ScriptedUse["kind"], folder: string): Promise<ScriptedUse> {
  const sandbox: JsonObject = { backend: "kubernetes", pool: POOL };
  if (kind === "code") return { kind, args: { sandbox }, tasks: SUMS };
  const tasks = await repairs(folder);
  push("tasks", "e2e-library", folder);
  return { kind, args: { sandbox, maxSteps: 4, libraries: "artifact://tasks/e2e-library" }, tasks };
}

/** Deletes a claimed pod now and then until there were enough. */
async function killSandboxes(name: string, jobs: Jobs): Promise<number> {
  let killed = 0;
  await until(`${KILLS} sandboxes to kill`, JOB_MS, async () => {
    const [claimed] = kubectl("-n", NAMESPACE, "get", "pods", "-l", `${POOL_LABEL},${CLAIM_LABEL}`, "-o", "name").split(
      "\n",
    );
    if (claimed) {
      kubectl("-n", NAMESPACE, "delete", claimed, "--grace-period=0", "--force", "--wait=false", "--ignore-not-found");
      killed += 1;
      await delay(BETWEEN_KILLS_MS);
    }
    const phase = (await jobs.find(name))?.status?.phase;
    if (phase === JobPhase.SUCCEEDED && killed < KILLS) throw new Error(`${name} ended after ${killed} kills`);
    return killed >= KILLS;
  });
  return killed;
}
