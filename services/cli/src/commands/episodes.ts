// SPDX-License-Identifier: Apache-2.0
/** `whet episodes …`: what was played, down to the token. */
import { writeFile } from "node:fs/promises";
import { toJson } from "@bufbuild/protobuf";
import { isAbort } from "@whetstone/core";
import { type GetEpisodeResponse, GetEpisodeResponseSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import {
  EpisodeSummarySchema,
  FailureClass,
  FailureClassSchema,
  Purpose,
  PurposeSchema,
  TerminationReasonSchema,
} from "@whetstone/proto/types/v1/types";

import { CliError, badInput } from "../cli-error.ts";
import { enumShortName, shortNames } from "../terminal/enum-names.ts";
import { episodeHtml } from "../episodes/episode-html.ts";
import { episodeHead, episodeText } from "../episodes/episode-text.ts";
import { formatNumber, formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { connect } from "./jobs.ts";

export interface ListFlags extends CommonOptions {
  readonly group?: string;
  readonly last?: string;
  readonly purpose?: string;
  readonly failed?: boolean;
}

const LAST_BY_DEFAULT = 20;
const MOST = 10_000;

export async function listEpisodes(job: string, flags: ListFlags, context: CommandContext): Promise<void> {
  const rows: string[][] = [];
  for await (const { summary, sequence } of wantedEpisodes(job, flags, context)) {
    if (flags.json !== true) rows.push(rowOf(summary));
    else context.terminal.json({ sequence, ...(toJson(EpisodeSummarySchema, summary) as object) });
  }
  if (flags.json === true) return;
  if (rows.length === 0) return context.terminal.line("no such episodes");
  const header = ["EPISODE", "PURPOSE", "REWARD", "OK", "STEPS", "TOKENS", "VERSIONS", "ENDED BY", "FAILURE"];
  for (const line of formatTable(header, rows)) context.terminal.line(line);
}

interface Listed {
  readonly summary: EpisodeSummary;
  readonly sequence: bigint;
}

/** Ends early, without complaint, when interrupted. */
export async function* wantedEpisodes(job: string, flags: ListFlags, context: CommandContext): AsyncGenerator<Listed> {
  const request = { name: job, group: flags.group ?? "", last: readLast(flags), purpose: purposeOf(flags.purpose) };
  await using client = connect(flags, context);
  try {
    for await (const { summary, sequence } of client.streamEpisodes(request, { signal: context.signal })) {
      if (summary && (flags.failed !== true || isFailed(summary))) yield { summary, sequence };
    }
  } catch (error) {
    if (!isAbort(error)) throw error;
  }
}

/** A group or all failures are wanted whole. */
function readLast(flags: ListFlags): number {
  if (flags.last === undefined) return flags.group === undefined && flags.failed !== true ? LAST_BY_DEFAULT : 0;
  const last = Number(flags.last);
  if (Number.isInteger(last) && last >= 0 && last <= MOST) return last;
  throw badInput([{ path: "--last", reason: `must be a whole number from 0 (all) to ${MOST}` }]);
}

export async function showEpisode(
  id: string,
  flags: CommonOptions & { tokens?: boolean; html?: string },
  context: CommandContext,
): Promise<void> {
  await using client = connect(flags, context);
  const answer = await client.getEpisode({ episodeId: id });
  if (!answer.episode) throw new CliError("CONTRACT_VIOLATION", "the controller answered without the episode");
  if (flags.html !== undefined) await writePage(flags.html, answer);
  if (flags.json === true) return context.terminal.json(toJson(GetEpisodeResponseSchema, answer));
  if (flags.html !== undefined) return context.terminal.line(`${id} in ${flags.html}`);
  const options = {
    tokens: flags.tokens === true,
    paint: context.terminal.paint,
    ...(answer.trainedInStep === undefined ? {} : { trainedInStep: answer.trainedInStep }),
  };
  for (const line of episodeText(answer.episode, options)) context.terminal.line(line);
}

async function writePage(path: string, { episode, trainedInStep }: GetEpisodeResponse): Promise<void> {
  if (episode === undefined) return;
  const plain = { tokens: false, paint: (_style: unknown, text: string) => text };
  const head = episodeHead(episode, { ...plain, ...(trainedInStep === undefined ? {} : { trainedInStep }) });
  await writeFile(path, episodeHtml(episode, head)).catch((error: unknown) => {
    throw badInput([
      { path: "--html", reason: `${path} cannot be written (${(error as NodeJS.ErrnoException).code})` },
    ]);
  });
}

function isFailed(summary: EpisodeSummary): boolean {
  return summary.failureClass !== FailureClass.NONE && summary.failureClass !== FailureClass.UNSPECIFIED;
}

function rowOf(summary: EpisodeSummary): string[] {
  const { minPolicyVersion: oldest, maxPolicyVersion: newest } = summary;
  const versions = oldest === undefined ? "–" : oldest === newest ? `v${oldest}` : `v${oldest}–v${newest}`;
  return [
    summary.episodeId,
    enumShortName(PurposeSchema, summary.purpose).toLowerCase(),
    formatNumber(summary.reward),
    summary.isCorrect ? "yes" : "no",
    String(summary.steps),
    String(summary.sampledTokens),
    versions,
    enumShortName(TerminationReasonSchema, summary.terminationReason),
    isFailed(summary) ? failureText(summary) : summary.notTrainable && `not trainable: ${summary.notTrainable}`,
  ];
}

function failureText({ failureClass, failurePhase, failureMessage }: EpisodeSummary): string {
  const place = failurePhase === "" ? "" : ` in ${failurePhase}`;
  return `${enumShortName(FailureClassSchema, failureClass)}${place}: ${failureMessage}`;
}

function purposeOf(text: string | undefined): Purpose {
  if (text === undefined) return Purpose.UNSPECIFIED;
  const found = [...shortNames(PurposeSchema)].find(([number, name]) => number !== 0 && name === text.toUpperCase());
  if (found) return found[0];
  throw badInput([{ path: "--purpose", reason: `"${text}" is none of train, validation, demonstration` }]);
}
