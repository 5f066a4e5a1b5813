// SPDX-License-Identifier: Apache-2.0
/** From a finished evaluation job and its episodes' summaries to the report. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { withDefaults } from "@whetstone/contract/defaults";
import { parseEpisodeId } from "@whetstone/core";
import { type Job, type JobSpec, ValidationVariantSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import { FailureClass, FailureClassSchema, TerminationReasonSchema } from "@whetstone/proto/types/v1/types";
import { type EvaluatedEpisode, type EvaluationHead, type EvaluationReport, evaluationReport } from "@whetstone/sdk";

import { CliError } from "../cli-error.ts";
import { enumShortName } from "../terminal/enum-names.ts";
import { EVAL_VARIANT } from "./eval-spec.ts";
import { seconds } from "../terminal/watch-view.ts";

export interface Asked {
  readonly ks: readonly number[];
  /** Of the dataset, in words. */
  readonly dataset: string;
}

/** @param summaries  in any order, each episode once */
export function reportOf(job: Job, summaries: Iterable<EpisodeSummary>, { ks, dataset }: Asked): EvaluationReport {
  return evaluationReport({ ...headOf(job.spec), ...endOf(job), dataset }, ks, inOrder(summaries).map(episodeOf));
}

type Head = Omit<EvaluationHead, "dataset">;

function headOf(spec: JobSpec | undefined): Omit<Head, keyof ReturnType<typeof endOf>> {
  if (!spec) throw new CliError("CONTRACT_VIOLATION", "the controller answered with a job that has no spec");
  const { name, model, agent, environment, validation, seed = 0n } = spec;
  const [variant] = validation?.variants ?? [];
  return {
    name,
    model: textOf(model?.path),
    agent: textOf(agent?.kind),
    environment: textOf(environment?.kind),
    attempts: withDefaults(ValidationVariantSchema, variant).attempts,
    seed: Number(seed),
    sampling: numbersOf(variant?.sampling ?? spec.sampling),
  };
}

function endOf({ status }: Job): Pick<Head, "finishedAt" | "seconds"> {
  const result = status?.validations.at(-1);
  const finishedAt = result?.finishedAt;
  return { finishedAt: finishedAt ? timestampDate(finishedAt).toISOString() : "", seconds: seconds(result?.duration) };
}

function textOf(text: string | undefined): string {
  return text ?? "";
}

/** In the order of the dataset; episodes of others than the evaluation are left out. */
function inOrder(summaries: Iterable<EpisodeSummary>): EpisodeSummary[] {
  const placed = [...summaries].flatMap((summary) => {
    const { group, sample } = parseEpisodeId(summary.episodeId);
    const [, variant, index] = /^v\d+-(.+)-(\d+)$/.exec(group) ?? [];
    return variant === EVAL_VARIANT ? [{ summary, index: Number(index), sample: Number(sample) }] : [];
  });
  return placed.sort((a, b) => a.index - b.index || a.sample - b.sample).map(({ summary }) => summary);
}

/** Like the controller's own count: what failed for reasons that are not the policy's is voided (I6). */
export function isScored({ failureClass }: EpisodeSummary): boolean {
  return SCORED.has(failureClass);
}

const SCORED: ReadonlySet<FailureClass> = new Set([FailureClass.NONE, FailureClass.POLICY, FailureClass.DEADLINE]);

function episodeOf(summary: EpisodeSummary): EvaluatedEpisode {
  const { failureClass } = summary;
  return {
    id: summary.episodeId,
    taskId: summary.taskId,
    source: summary.taskSource || "default",
    isScored: isScored(summary),
    isCorrect: summary.isCorrect,
    reward: summary.reward,
    endedBy: enumShortName(TerminationReasonSchema, summary.terminationReason),
    failureClass: failureClass === FailureClass.UNSPECIFIED ? "NONE" : enumShortName(FailureClassSchema, failureClass),
    failurePhase: summary.failurePhase,
    failureMessage: summary.failureMessage,
    steps: summary.steps,
    tokens: summary.sampledTokens,
    seconds: seconds(summary.timing?.total),
  };
}

function numbersOf(settings: object | undefined): Record<string, number> {
  const entries = Object.entries(settings ?? {}).filter(([, value]) => typeof value === "number");
  return Object.fromEntries(entries as [string, number][]);
}
