// SPDX-License-Identifier: Apache-2.0
// `onDemand`: engines and trainer come with a job and go with it. On the release that is there, which is as before afterwards.
import { CHART, helm } from "./cluster.ts";
import { type Jobs, until } from "./jobs.ts";
import { pods } from "./pods.ts";
import { NAMESPACE, RELEASE } from "./release.ts";
import { shortJob } from "./training.ts";

const PARTS = ["engine", "trainer"];
const LONG_MS = 120_000;

export async function trainOnDemand(name: string, jobs: Jobs): Promise<string> {
  set(true);
  const idle = await seconds("engines and trainer to go", () => count() === 0);
  const startedAt = performance.now();
  await jobs.submit(shortJob(name));
  await jobs.reaches(name, 1, LONG_MS);
  const first = ((performance.now() - startedAt) / 1000).toFixed(1);
  await jobs.succeeds(name, LONG_MS);
  const gone = await seconds("them to go again", () => count() === 0);
  set(false);
  const back = await seconds("them to be there always", () => PARTS.every((part) => pods(part)[0]?.ready === true));
  return `gone after ${idle} s; first step of a job ${first} s after it was submitted; gone ${gone} s after its end; back after ${back} s`;
}

function set(onDemand: boolean): void {
  helm("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reuse-values", "--set", `onDemand=${onDemand}`);
}

function count(): number {
  return pods().filter(({ part }) => PARTS.includes(part)).length;
}

async function seconds(what: string, holds: () => boolean): Promise<string> {
  const startedAt = performance.now();
  await until(what, LONG_MS, holds);
  return ((performance.now() - startedAt) / 1000).toFixed(1);
}
