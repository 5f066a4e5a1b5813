// SPDX-License-Identifier: Apache-2.0
// What each algorithm learns from the same start: one SFT, then a job for each algorithm and seed. With `--long` GRPO on
// single steps and then on whole episodes, from one start a seed. `make learn` runs it.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { AlgorithmSettings } from "@whetstone/sdk";
import { ALGORITHMS } from "./src/algorithms.ts";
import { keepModel, prepare, runJob } from "./src/jobs.ts";
import { type LearnRun, learnRun, learnTable } from "./src/learn-table.ts";
import { integer, type QuickstartOptions } from "./src/options.ts";
import { Platform } from "./src/platform.ts";
import { rlJob, safeJob, sftJob, wayJob } from "./src/recipe.ts";

const LONG_STEPS = "160";
/** After two passes of it whole episodes were at 0.14 in their 30th step, where that run was ended. */
const LONG_SFT_EPOCHS = 6;

const { values } = parseArgs({
  options: {
    algorithms: { type: "string", default: Object.keys(ALGORITHMS).join(",") },
    seeds: { type: "string", default: "1,2,3" },
    long: { type: "boolean", default: false },
    steps: { type: "string" },
    "held-out": { type: "string" },
    "trainer-threads": { type: "string", default: "1" },
    data: { type: "string", default: ".whetstone/learn" },
    report: { type: "string" },
  },
});
const chosen = values.algorithms.split(",").map((name): [string, AlgorithmSettings] => {
  const algorithm = ALGORITHMS[name];
  if (algorithm) return [name, algorithm];
  throw new Error(`--algorithms: ${name} is not one of ${Object.keys(ALGORITHMS).join(", ")}`);
});
const seeds = values.seeds.split(",").map((seed) => integer("--seeds", seed, 0, 1_000_000));
const options: QuickstartOptions = {
  seed: 1,
  lag: 1,
  steps: integer("--steps", values.steps ?? (values.long ? LONG_STEPS : "16"), 1, 100_000),
  heldOut: integer("--held-out", values["held-out"] ?? (values.long ? "400" : "100"), 1, 100_000),
  trainerThreads: integer("--trainer-threads", values["trainer-threads"], 1, 256),
  data: values.data,
};
const runs: LearnRun[] = [];
// Beside the data folder, which the next run empties.
const report = resolve(values.report ?? `${values.data}${values.long ? "-long" : ""}.md`);
mkdirSync(dirname(report), { recursive: true });
await (values.long ? learnLong(resolve(options.data)) : learn(resolve(options.data)));
console.log(`table: ${report}`);

async function learn(data: string): Promise<void> {
  const { model, demonstrations } = prepare(options.seed, data);
  await using platform = await Platform.start(data, model, options.trainerThreads);
  const format = keepModel(await runJob(platform, sftJob(options, model, demonstrations)), join(data, "models/format"));
  for (const seed of seeds)
    for (const [name, algorithm] of chosen) {
      const job = `learn-${name.replaceAll("+", "p")}-${seed}`;
      const finished = await runJob(platform, rlJob({ ...options, seed }, format, job, algorithm));
      note(learnRun(name, seed, finished));
    }
}

async function learnLong(data: string): Promise<void> {
  for (const seed of seeds) {
    const own = { ...options, seed };
    const { model, demonstrations } = prepare(seed, data);
    await using platform = await Platform.start(data, model, options.trainerThreads);
    const sft = sftJob(own, model, demonstrations, LONG_SFT_EPOCHS);
    const format = keepModel(await runJob(platform, sft), join(data, "models/format"));
    const safe = keepModel(await runJob(platform, safeJob(own, format)), join(data, "models/safe"));
    note(learnRun("safe steps, then grpo", seed, await runJob(platform, wayJob(own, safe))));
  }
}

/** After each run: a long series that is cut short leaves what it has. */
function note(run: LearnRun): void {
  runs.push(run);
  console.log(JSON.stringify(run));
  writeFileSync(report, learnTable(runs));
}
