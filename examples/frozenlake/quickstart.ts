// SPDX-License-Identifier: Apache-2.0
// The whole loop on one machine: a random-weight model learns to cross frozen lakes. `make quickstart` runs it.
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { keepModel, prepare, runJob } from "./src/jobs.ts";
import { BadInput, parseOptions, type QuickstartOptions } from "./src/options.ts";
import { Platform } from "./src/platform.ts";
import { GRPO_STEPS, grpoJob, sftJob } from "./src/recipe.ts";
import { writeReport } from "./src/report.ts";
import { replaysOf } from "./src/replays.ts";
import { type QuickstartResult, resultOf } from "./src/result.ts";

try {
  const options = parseOptions(process.argv.slice(2), GRPO_STEPS);
  const data = resolve(options.data);
  console.log(closingWords(await quickstart(options, data), data));
} catch (error) {
  process.stderr.write(`quickstart: ${(error as Error).message}\n`);
  process.exitCode = error instanceof BadInput ? 2 : 1;
}

async function quickstart(options: QuickstartOptions, data: string): Promise<QuickstartResult> {
  const startedAt = performance.now();
  const { model, demonstrations } = prepare(options.seed, data);
  await using platform = await Platform.start(data, model, options.trainerThreads);
  const setupWallSeconds = (performance.now() - startedAt) / 1000;
  console.log(`services are up after ${setupWallSeconds.toFixed(1)} s; logs are in ${join(options.data, "logs")}`);

  const sft = await runJob(platform, sftJob(options, model, demonstrations));
  const format = keepModel(sft, join(data, "models/format"));
  const grpo = await runJob(platform, grpoJob(options, format));
  keepModel(grpo, join(data, "models/goal"));
  const result = resultOf(sft, grpo, { seed: options.seed, lag: options.lag, setupWallSeconds });
  writeFileSync(join(data, "result.json"), `${JSON.stringify(result, null, 2)}\n`);
  writeReport(join(data, "report.html"), result, {
    sft,
    grpo,
    replays: await replaysOf(platform, grpo.job, options.heldOut),
  });
  return result;
}

function closingWords(result: QuickstartResult, data: string): string {
  const percent = (value: number): string => `${(100 * value).toFixed(1).padStart(5)} %`;
  const row = (name: string, { greedy, sampled }: { greedy: number; sampled: number }): string =>
    `  ${name.padEnd(22)} ${percent(greedy)}  ${percent(sampled)}`;
  const { start, afterSft, afterGrpo } = result.heldOut;
  const audit = Object.entries(result.audit).map(([name, count]) => `${count} ${name}`);
  return [
    "",
    "success on held-out maps   greedy  sampled",
    row("random weights", start),
    row("after SFT (format)", afterSft),
    row("after GRPO (goal)", afterGrpo),
    "",
    `${result.episodes} episodes and ${result.steps} steps in ${result.trainWallSeconds} s of training; audit: ${audit.join(", ")}`,
    `report: ${join(data, "report.html")}    figures: ${join(data, "result.json")}`,
    "",
    "Next: `npx whet up --detach && npx whet train examples/frozenlake/job.yaml` trains on by hand (README.md, Train something);",
    "ARCHITECTURE.md says how it works.",
  ].join("\n");
}
