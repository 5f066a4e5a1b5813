// SPDX-License-Identifier: Apache-2.0
/** `whet episodes replay`: does the same happen again when the model says the same? */
import { toJson } from "@bufbuild/protobuf";
import type { ReplayEpisodeResponse } from "@whetstone/proto/jobs/v1/jobs";
import type { ReplayDifference } from "@whetstone/proto/types/v1/types";
import { Purpose, ReplayDifferenceSchema } from "@whetstone/proto/types/v1/types";

import type { JobClient } from "../connect/clients.ts";
import { EXIT } from "../cli-error.ts";
import { printable } from "../episodes/episode-text.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";
import type { ListFlags } from "./episodes.ts";
import { wantedEpisodes } from "./episodes.ts";
import { connect } from "./jobs.ts";

const DEADLINE_MS = 600_000;

/** @param what  an episode's id, or a job's name: its newest episodes. Exit code 1 when anything differs. */
export async function replayEpisodes(
  what: string,
  flags: ListFlags,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  await using client = connect(flags, context);
  let [same, different] = [0, 0];
  for await (const id of idsOf(what, flags, context)) {
    const answer = await replay(client, id, context);
    tell(id, answer, flags, context);
    if (answer.differences.length === 0) same += 1;
    else different += 1;
  }
  if (different > 0) outcome.exitCode = EXIT.other;
  const text = `${same} the same, ${different} different`;
  if (flags.json !== true && (same + different !== 1 || different === 0)) context.terminal.line(text);
}

async function* idsOf(what: string, flags: ListFlags, context: CommandContext): AsyncGenerator<string> {
  if (what.includes("/")) {
    yield what;
    return;
  }
  for await (const { summary } of wantedEpisodes(what, flags, context))
    if (summary.purpose !== Purpose.DEMONSTRATION) yield summary.episodeId;
}

function replay(client: JobClient, episodeId: string, { signal }: CommandContext): Promise<ReplayEpisodeResponse> {
  return client.replayEpisode({ episodeId }, { signal, deadlineMs: DEADLINE_MS });
}

function tell(
  id: string,
  { differences }: ReplayEpisodeResponse,
  { json }: CommonOptions,
  { terminal }: CommandContext,
): void {
  if (json === true) {
    const list = differences.map((difference) => toJson(ReplayDifferenceSchema, difference));
    return terminal.json({ episodeId: id, same: differences.length === 0, differences: list });
  }
  if (differences.length === 0) return;
  terminal.line(terminal.paint("bold", id));
  for (const difference of differences) lines(difference).forEach((line) => terminal.line(line));
}

function lines({ role, step, field, recorded, replayed }: ReplayDifference): string[] {
  const where = step === undefined ? role : `${role} turn ${step + 1}`;
  return [`  ${where === "" ? "" : `${where}: `}${field}`, ...side("was", recorded), ...side("now", replayed)];
}

function side(label: string, text: string): string[] {
  return printable(text)
    .split("\n")
    .map((line, index) => `    ${(index === 0 ? label : "").padEnd(5)}${line}`);
}
