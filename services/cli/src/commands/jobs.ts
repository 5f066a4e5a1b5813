// SPDX-License-Identifier: Apache-2.0
/** `whet jobs …`: what is known of jobs, and what a user may want them to become. */
import { toJson } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import { CheckpointSchema, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { isAbort } from "@whetstone/core";

import type { JobClient } from "../connect/clients.ts";
import { jobClient } from "../connect/clients.ts";
import { controllerAddress } from "../connect/endpoint.ts";
import { CliError } from "../cli-error.ts";
import { checkLogFolder } from "../metrics/event-folder.ts";
import { formatTable } from "../terminal/format.ts";
import { phaseName, validationLine, watchScreen } from "../terminal/watch-view.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";
import { exitCodeOf } from "./submit.ts";
import { watchJob } from "./watch.ts";

export async function listJobs(flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const jobs: Job[] = [];
  let pageToken = "";
  do {
    const page = await client.listJobs({ pageSize: 500, pageToken });
    jobs.push(...page.jobs);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  if (flags.json === true) return context.terminal.json({ jobs: jobs.map((job) => toJson(JobSchema, job)) });
  if (jobs.length === 0) return context.terminal.line("no jobs yet; submit one with `whet train job.yaml`");
  const rows = jobs.map((job) => [
    job.spec?.name ?? "",
    phaseName(job),
    `${job.status?.step ?? 0}/${job.spec?.loop?.steps ?? 0}`,
    timeText(job.createdAt),
    job.status?.reason ?? "",
  ]);
  for (const line of formatTable(["NAME", "PHASE", "STEP", "CREATED", "REASON"], rows)) context.terminal.line(line);
}

export async function getJob(name: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const job = present((await client.getJob({ name })).job);
  const { terminal } = context;
  if (flags.json === true) return terminal.json(toJson(JobSchema, job));
  const steps = job.status?.lastStep ? [job.status.lastStep] : [];
  for (const line of watchScreen({ job, steps, validations: [] }, terminal.columns(), terminal.paint))
    terminal.line(line);
  for (const result of job.status?.validations ?? []) terminal.line(validationLine(result));
  if (job.status?.modelPath) terminal.line(`weights     ${job.status.modelPath}`);
  terminal.line(terminal.paint("dim", `uid ${job.uid}, created ${timeText(job.createdAt)}; the whole record: --json`));
}

/** Until the job is finished; an interrupt only ends the watching. */
export async function watch(
  name: string,
  flags: CommonOptions & { readonly tensorboard?: string },
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  if (flags.tensorboard !== undefined) checkLogFolder(flags.tensorboard);
  await using client = connect(flags, context);
  const job = present((await client.getJob({ name })).job); // an unknown name is bad input, at once
  try {
    outcome.exitCode = exitCodeOf(await watchJob(client, job, flags, context));
  } catch (error) {
    if (!context.signal.aborted || !isAbort(error)) throw error;
    if (flags.json !== true) context.terminal.line(`\ndetached; ${name} goes on`);
  }
}

type Change = "cancelJob" | "suspendJob" | "resumeJob";

export async function change(
  method: Change,
  name: string,
  flags: CommonOptions,
  context: CommandContext,
): Promise<void> {
  await using client = connect(flags, context);
  const job = present((await client[method]({ name })).job);
  if (flags.json === true) context.terminal.json(toJson(JobSchema, job));
  else context.terminal.line(`${name}: ${phaseName(job)}${job.status?.message ? `, ${job.status.message}` : ""}`);
}

export async function listCheckpoints(name: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const { checkpoints, notice } = await client.listCheckpoints({ name });
  if (flags.json === true)
    return context.terminal.json({
      checkpoints: checkpoints.map((one) => toJson(CheckpointSchema, one)),
      ...(notice && { notice }),
    });
  const rows = checkpoints.map((one) => [
    String(one.step),
    `v${one.policyVersion}`,
    timeText(one.createdAt),
    one.modelPath,
  ]);
  for (const line of formatTable(["STEPS", "VERSION", "CREATED", "WEIGHTS"], rows)) context.terminal.line(line);
  if (notice) context.terminal.line(`Some may be missing: ${notice}`);
}

export function connect(flags: CommonOptions, context: CommandContext): JobClient {
  return jobClient(controllerAddress(flags.data, context.environment), context.environment);
}

export function present(job: Job | undefined): Job {
  if (job) return job;
  throw new CliError("CONTRACT_VIOLATION", "the controller answered without the job");
}

function timeText(time: Timestamp | undefined): string {
  return time ? new Date(Number(time.seconds) * 1000).toISOString().slice(0, 19).replace("T", " ") : "–";
}
