// SPDX-License-Identifier: Apache-2.0
/** `whet eval`: pass@k of a model, as a job that only validates. */
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";

import type { Job, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";

import { runningRuntime } from "../adapters/endpoint.ts";
import { jobFolder } from "../adapters/job-file-reader.ts";
import type { JobSource } from "../adapters/job-source.ts";
import { openJob } from "../adapters/job-source.ts";
import { checkModel } from "../adapters/models-tool.ts";
import { CliError, badInput } from "../domain/cli-error.ts";
import { evalDocument, parseKs, parseTasks } from "../domain/eval-spec.ts";
import { formatNumber, formatTable } from "../domain/format.ts";
import { readJobSpec } from "../domain/job-file.ts";
import { percent } from "../domain/watch-view.ts";
import type { Outcome } from "../program.ts";
import type { CommandContext } from "./context.ts";
import type { RuntimeFlags } from "./open-runtime.ts";
import { openSession } from "./session.ts";
import { exitCodeOf, submitJob, watchToEnd } from "./submit.ts";

export interface EvalFlags extends RuntimeFlags {
  readonly job?: string;
  readonly attempts: string;
  readonly k: string;
  readonly tasks?: string;
  readonly environment?: string;
}

export async function evaluate(flags: EvalFlags, context: CommandContext, outcome: Outcome): Promise<void> {
  const attempts = Number(flags.attempts);
  if (!Number.isInteger(attempts) || attempts < 1)
    throw badInput([{ path: "--attempts", reason: `must be a whole number of at least 1, not "${flags.attempts}"` }]);
  const ks = parseKs(flags.k, attempts);
  const source = flags.job === undefined ? undefined : await openJob(flags.job);
  const spec = readJobSpec(
    document(source?.document, { flags, attempts, context }),
    flags.job === undefined ? process.cwd() : jobFolder(flags.job),
  );
  const model = spec.model?.path ?? "";
  if (model === "") throw badInput([{ path: "--model", reason: "needed: the model folder to evaluate" }]);
  await checkModel(model, "--model", context.signal);
  await using session = await openSession({ ...flags, model }, context);
  await submitJob(session.jobs, spec, source?.code);
  // The table is the answer; a program that wants it wants no events.
  const quiet = { ...context, terminal: flags.json === true ? silent(context) : context.terminal };
  const { exitCode, job } = await watchToEnd(session, spec.name, false, quiet);
  outcome.exitCode = exitCode;
  if (job) report(job, { model, ks, json: flags.json === true }, context);
}

interface Asking {
  readonly flags: EvalFlags;
  readonly attempts: number;
  readonly context: CommandContext;
}

function document(
  base: JobSource["document"] | undefined,
  { flags, attempts, context }: Asking,
): JobSource["document"] {
  const model =
    flags.model === undefined
      ? base
        ? undefined
        : runningRuntime(flags.data, context.environment)?.model
      : resolve(flags.model);
  return evalDocument(base, {
    name: `eval-${randomBytes(4).toString("hex")}`,
    attempts,
    ...(model === undefined ? {} : { model }),
    ...(flags.tasks === undefined ? {} : { tasks: parseTasks(flags.tasks) }),
    ...(flags.environment === undefined ? {} : { environment: flags.environment }),
  });
}

interface Asked {
  readonly model: string;
  readonly ks: readonly number[];
  readonly json: boolean;
}

function report(job: Job, { model, ks, json }: Asked, context: CommandContext): void {
  const result = job.status?.validations.at(-1);
  if (!result) {
    if (exitCodeOf(job) !== 0) return context.terminal.error(`whet: ${job.status?.message ?? "the evaluation failed"}`);
    throw new CliError("NO_RESULT", "the job finished without a validation result");
  }
  const passes = ks.map((k): [number, number] => [k, result.passAtK[k] ?? NaN]);
  if (json) return context.terminal.json(asJson(job, model, result, passes));
  const header = ["TASKS", "EPISODES", "VOIDED", "MEAN REWARD", "SUCCESS", ...passes.map(([k]) => `PASS@${k}`)];
  const row = [
    result.tasks,
    result.episodes,
    result.voided,
    formatNumber(result.meanReward),
    percent(result.success),
    ...passes.map(([, value]) => percent(value)),
  ];
  for (const line of formatTable(header, [row.map(String)])) context.terminal.line(line);
}

function asJson(job: Job, model: string, result: ValidationResult, passes: readonly [number, number][]): object {
  const { tasks, episodes, voided, success, meanReward } = result;
  return {
    job: job.spec?.name,
    model,
    tasks,
    episodes,
    voided,
    success,
    meanReward,
    passAtK: Object.fromEntries(passes),
  };
}

function silent(context: CommandContext): CommandContext["terminal"] {
  return { ...context.terminal, isTty: false, line: () => {} };
}
