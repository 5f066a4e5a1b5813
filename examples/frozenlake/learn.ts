// SPDX-License-Identifier: Apache-2.0
// What each algorithm learns from the same start: one SFT, then a job for each algorithm and seed. `make learn` runs it.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { ALGORITHMS } from "./src/algorithms.ts";
import { keepModel, prepare, runJob } from "./src/jobs.ts";
import { type LearnRun, learnRun, learnTable } from "./src/learn-table.ts";
import { integer, type QuickstartOptions } from "./src/options.ts";
import { Platform } from "./src/platform.ts";
import { rlJob, sftJob } from "./src/recipe.ts";

const { values } = parseArgs({
  options: {
    algorithms: { type: "string", default: Object.keys(ALGORITHMS).join(",") },
    seeds: { type: "string", default: "1,2,3" },
    steps: { type: "string", default: "24" },
    "held-out": { type: "string", default: "100" },
    "trainer-threads": { type: "string", default: "1" },
    data: { type: "string", default: ".whetstone/learn" },
    report: { type: "string", default: ".whetstone/learn/report.md" },
  },
});
const names = values.algorithms.split(",");
const unknown = names.filter((name) => !(name in ALGORITHMS));
if (unknown.length > 0)
  throw new Error(`--algorithms: ${unknown.join(", ")} is not one of ${Object.keys(ALGORITHMS).join(", ")}`);
const seeds = values.seeds.split(",").map((seed) => integer("--seeds", seed, 0, 1_000_000));
const options: QuickstartOptions = {
  seed: 1,
  lag: 1,
  steps: integer("--steps", values.steps, 1, 100_000),
  heldOut: integer("--held-out", values["held-out"], 1, 100_000),
  trainerThreads: integer("--trainer-threads", values["trainer-threads"], 1, 256),
  data: values.data,
};
await learn(resolve(options.data), resolve(values.report));

async function learn(data: string, report: string): Promise<void> {
  const { model, demonstrations } = prepare(options.seed, data);
  await using platform = await Platform.start(data, model, options.trainerThreads);
  const format = keepModel(await runJob(platform, sftJob(options, model, demonstrations)), join(data, "models/format"));
  const runs: LearnRun[] = [];
  mkdirSync(dirname(report), { recursive: true });
  for (const seed of seeds)
    for (const name of names) {
      const job = `learn-${name.replaceAll("+", "p")}-${seed}`;
      const finished = await runJob(platform, rlJob({ ...options, seed }, format, job, ALGORITHMS[name] as never));
      const run = learnRun(name, seed, finished);
      runs.push(run);
      console.log(JSON.stringify(run));
      // After each run: a long series that is cut short leaves what it has.
      writeFileSync(report, learnTable(runs));
    }
  console.log(`table: ${report}`);
}
