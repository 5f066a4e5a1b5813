// SPDX-License-Identifier: Apache-2.0
/** `whet eval`: pass@k of a model, as a job that only validates. The same name again goes on where it was. */
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";

import { isArtifact } from "@whetstone/core";
import type { Job, JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import type { EvaluationReport } from "@whetstone/sdk";

import { runningRuntime } from "../connect/endpoint.ts";
import { countTasks, datasetOf } from "../datasets/eval-dataset.ts";
import { followEvaluation } from "../evaluation/evaluation-watch.ts";
import { readAlgorithmModule } from "../jobs/algorithm-module.ts";
import { jobFolder } from "../jobs/job-file-reader.ts";
import type { JobSource } from "../jobs/job-source.ts";
import { openJob } from "../jobs/job-source.ts";
import { checkModel } from "../models/models-tool.ts";
import { isRemoteModel } from "../models/remote-model.ts";
import { writeReport } from "../evaluation/report-files.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { ExitCode } from "../cli-error.ts";
import { badInput, CliError } from "../cli-error.ts";
import type { EvalOptions, EvalWords } from "../evaluation/eval-flags.ts";
import { readEvalWords } from "../evaluation/eval-flags.ts";
import { EvalProgress } from "../evaluation/eval-progress.ts";
import { evalDocument } from "../evaluation/eval-spec.ts";
import { reportLines } from "../evaluation/eval-tables.ts";
import { reportOf } from "../evaluation/evaluated.ts";
import { readJobSpec } from "../jobs/job-file.ts";
import type { CommandContext, Outcome } from "./context.ts";
import { evalView } from "./eval-view.ts";
import type { RuntimeFlags } from "./open-runtime.ts";
import type { ControllerConnection } from "./controller-connection.ts";
import { connectController } from "./controller-connection.ts";
import { exitCodeOf, submitJob, untilEnd } from "./submit.ts";

export interface EvalFlags extends RuntimeFlags, EvalWords {
  readonly job?: string;
  readonly agent?: string;
  readonly environment?: string;
  readonly report?: string;
}

export async function evaluate(flags: EvalFlags, context: CommandContext, outcome: Outcome): Promise<void> {
  const options = readEvalWords(flags);
  const source = flags.job === undefined ? undefined : await openJob(flags.job, context.signal);
  const document = await documentOf(source?.document, flags, options, context);
  const folder = flags.job === undefined ? process.cwd() : jobFolder(flags.job);
  readAlgorithmModule(document, folder);
  const spec = readJobSpec(document, folder);
  const model = spec.model?.path ?? "";
  if (model === "") throw badInput([{ path: "--model", reason: "needed: the model folder to evaluate" }]);
  await checkUnlessRemote(document, model, context);
  await using controller = await connectController({ ...flags, model }, context);
  const { created } = await submitJob(controller.jobs, spec, source?.code);
  if (flags.json !== true) context.terminal.line(`${created ? "submitted" : "taken up again:"} ${spec.name}`);
  const { exitCode, job, episodes } = await watch(controller, spec, { flags, options }, context);
  outcome.exitCode = exitCode;
  if (job) return await finish(job, episodes, { flags, options }, context);
  if (flags.json !== true) context.terminal.line(`the same command with --name ${spec.name} goes on with it`);
}

/** What lies where the controller runs is its to judge. */
async function checkUnlessRemote(
  document: JobSource["document"],
  model: string,
  context: CommandContext,
): Promise<void> {
  if (!isRemoteModel(document, context.environment)) await checkModel(model, "--model", context.signal);
}

interface Asked {
  readonly flags: EvalFlags;
  readonly options: EvalOptions;
}

async function documentOf(
  base: JobSource["document"] | undefined,
  flags: EvalFlags,
  options: EvalOptions,
  context: CommandContext,
): Promise<JobSource["document"]> {
  const { seeds, attempts, take, concurrency, sampling } = options;
  const model = modelOf(base, flags, context);
  const dataset = flags.dataset === undefined ? seeds && { seeds } : await datasetOf(flags.dataset);
  return evalDocument(base, {
    name: flags.name ?? `eval-${randomBytes(4).toString("hex")}`,
    ...{ attempts, sampling },
    ...(take === undefined ? {} : { take }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(model === undefined ? {} : { model }),
    ...(dataset === undefined ? {} : { dataset }),
    ...(flags.agent === undefined ? {} : { agent: flags.agent }),
    ...(flags.environment === undefined ? {} : { environment: flags.environment }),
    ...(flags.seed === undefined ? {} : { seed: flags.seed }),
  });
}

/** Undefined: the job file's. */
function modelOf(base: unknown, { model, data }: EvalFlags, { environment }: CommandContext): string | undefined {
  if (model !== undefined) return isArtifact(model) ? model : resolve(model);
  return base === undefined ? runningRuntime(data, environment)?.model : undefined;
}

interface Watched {
  readonly exitCode: ExitCode;
  /** Absent: interrupted before its end. */
  readonly job?: Job;
  readonly episodes: readonly EpisodeSummary[];
}

async function watch(
  controller: ControllerConnection,
  spec: JobSpec,
  { flags, options }: Asked,
  context: CommandContext,
): Promise<Watched> {
  const dataset = spec.validation?.dataset;
  const tasks = dataset && (await countTasks(dataset));
  const progress = new EvalProgress(tasks && tasks * options.attempts, () => performance.now());
  const json = flags.json === true;
  let episodes: readonly EpisodeSummary[] = [];
  const ended = await untilEnd(controller, { name: spec.name, json }, context, async () => {
    const view = evalView(progress, context.terminal, json);
    try {
      const followed = await followEvaluation(controller.jobs, spec.name, view, context.signal);
      ({ episodes } = followed);
      return followed.job;
    } finally {
      view.close();
    }
  });
  return { ...ended, episodes };
}

async function finish(
  job: Job,
  episodes: readonly EpisodeSummary[],
  { flags, options }: Asked,
  { terminal }: CommandContext,
): Promise<void> {
  if (!job.status?.validations.length) {
    if (exitCodeOf(job) !== 0) return terminal.error(`whet: ${job.status?.message || "the evaluation failed"}`);
    throw new CliError("NO_RESULT", "the job finished without a validation result");
  }
  // The tables below have dashes where nothing could be scored; this line says why.
  if (exitCodeOf(job) !== 0) terminal.error(`whet: ${job.status.message || "the evaluation failed"}`);
  const report = reportOf(job, episodes, { ks: options.ks, dataset: datasetText(job, flags) });
  const folder = flags.report === undefined ? undefined : resolve(flags.report);
  if (folder !== undefined) await writeReport(folder, report);
  show(report, folder, flags.json === true, terminal);
}

function show(report: EvaluationReport, folder: string | undefined, json: boolean, terminal: Terminal): void {
  if (json) return terminal.json(report);
  for (const line of ["", ...reportLines(report)]) terminal.line(line);
  if (folder !== undefined) terminal.line(`\nreport: ${join(folder, "report.html")}, ${join(folder, "report.json")}`);
}

function datasetText({ spec }: Job, flags: EvalFlags): string {
  if (flags.dataset !== undefined) return flags.dataset.join(", ");
  const source = spec?.validation?.dataset?.source;
  if (source?.case !== "seeds") return source?.value ?? "";
  const { first, count } = source.value;
  return `seeds ${first} to ${first + count - 1n}`;
}
