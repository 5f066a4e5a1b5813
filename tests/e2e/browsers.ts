// SPDX-License-Identifier: Apache-2.0
// A job whose pages are in pods of their own: the pool of browsers grows from one to three while the pool for everything else stays
// as it is, and pods of it are killed while it trains. Its policy reads the pages: all that is played must be paid.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { browserJob } from "../support/browser-job.ts";
import { kubectl, ROOT } from "./cluster.ts";
import { finish } from "./faults.ts";
import { type Jobs, meanSuccess, until } from "./jobs.ts";
import { wantedSandbox } from "./own-sandbox.ts";
import { deleteNow, type Pod, podsOfPool } from "./pods.ts";
import { NAMESPACE } from "./release.ts";
import { MODEL } from "./training.ts";
import { whet } from "./whet.ts";

/** The chart makes the pool, and env-runners without the profile do without sandboxes. */
export const BROWSER_SETTINGS = ["envRunnerBrowser.enabled=true"];
const POOL = "browser";
/** It goes on until the last pod was killed, however fast it is. */
const STEPS = 400;
const STEPS_AFTER_KILLS = 2;
const KILLS = 2;
const BETWEEN_KILLS_MS = 5_000;
const READY_MS = 180_000;
const JOB_MS = 600_000;

/** @throws when less than all was paid, the pool did not grow, or another pool changed */
export async function trainInBrowsers(name: string, jobs: Jobs): Promise<string> {
  await hasReady(1);
  const others = uids(podsOfPool("default"));
  await submit(name);
  await jobs.reaches(name, 1, JOB_MS);
  const began = performance.now();
  scale(3);
  await hasReady(3);
  const grown = (performance.now() - began) / 1000;
  for (let killed = 0; killed < KILLS; killed += 1) {
    deleteNow(podsOfPool(POOL)[0] as Pod);
    await delay(BETWEEN_KILLS_MS);
  }
  const atKills = await jobs.step(name);
  await jobs.reaches(name, atKills + STEPS_AFTER_KILLS, JOB_MS);
  const ended = await finish(jobs, name);
  const paid = await meanSuccess(jobs, name);
  if (paid < 0.999) throw new Error(`a policy that reads its pages was paid for ${paid} of its episodes`);
  await hasReady(3);
  if (uids(podsOfPool("default")) !== others) throw new Error("pods of the pool default are others than before");
  return `${ended}, all of it paid; 3 pods ready after ${grown.toFixed(1)} s, ${KILLS} killed at step ${atKills}`;
}

async function submit(name: string): Promise<void> {
  mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
  // Inside the repository, so that the SDK is found as it is in a project that has it installed.
  const folder = mkdtempSync(join(ROOT, ".whetstone/e2e-"));
  try {
    const { train, module, environment, ...rest } = browserJob(folder, { name, model: MODEL, steps: STEPS, groups: 4 });
    run("datasets", "push", name, train.jsonl);
    const document = {
      ...rest,
      environment: { ...environment, pool: POOL },
      module: { ...module, sandbox: wantedSandbox() },
      train: { ...train, jsonl: `artifact://datasets/${name}` },
    };
    const file = join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(document));
    run("train", file, "--no-watch");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function scale(replicas: number): void {
  run("pools", "scale", POOL, String(replicas));
}

function run(...args: string[]): void {
  const { status, output } = whet(...args);
  if (status !== 0) throw new Error(`whet ${args.join(" ")} ended with ${status}: ${output}`);
}

async function hasReady(count: number): Promise<void> {
  await until(`${count} env-runners with browsers`, READY_MS, () => {
    const ready = kubectl("-n", NAMESPACE, "get", `environmentpool/${POOL}`, "-o", "jsonpath={.status.ready}");
    return Number(ready) === count && podsOfPool(POOL).length === count;
  });
}

function uids(pods: readonly Pod[]): string {
  return pods.map(({ uid }) => uid).join(" ");
}
