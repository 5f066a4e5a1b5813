// SPDX-License-Identifier: Apache-2.0
/** `whet episodes export`: every sealed episode of a job, with its tokens, in a file. */
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";

import type { JobClient } from "../connect/clients.ts";
import type { EpisodeFile } from "../episodes/episode-files.ts";
import { openJsonl, openParquet } from "../episodes/episode-files.ts";
import { badInput } from "../cli-error.ts";
import type { ExportedEpisode } from "../episodes/episode-rows.ts";
import { formatCount } from "../terminal/format.ts";
import type { CommandContext } from "./context.ts";
import type { ListFlags } from "./episodes.ts";
import { wantedEpisodes } from "./episodes.ts";
import { exportPairs } from "./episode-pairs.ts";
import { connect } from "./jobs.ts";

export interface ExportFlags extends ListFlags {
  readonly jsonl?: string;
  readonly parquet?: string;
  readonly pairs?: string;
}

/** Bodies that are fetched side by side; their order stays. */
const AHEAD = 16;
const PROGRESS_EVERY = 1_000;

export async function exportEpisodes(job: string, flags: ExportFlags, context: CommandContext): Promise<void> {
  const [path, ...others] = [flags.jsonl, flags.parquet, flags.pairs].filter((one) => one !== undefined);
  if (path === undefined || others.length > 0)
    throw badInput([{ path: "--jsonl, --parquet, --pairs", reason: "give one of them, with the file to write" }]);
  if (flags.pairs !== undefined) return exportPairs(job, flags.pairs, flags, context);
  await using client = connect(flags, context);
  const file = await open(flags, path);
  try {
    const episodes = await writeAll(client, file, wantedEpisodes(job, { last: "0", ...flags }, context), context);
    context.signal.throwIfAborted();
    await file.finish();
    if (flags.json === true) context.terminal.json({ job, path, episodes });
    else context.terminal.line(`${formatCount(episodes)} episodes in ${path}`);
  } catch (error) {
    file.discard();
    throw error;
  }
}

async function open(flags: ExportFlags, path: string): Promise<EpisodeFile> {
  try {
    return flags.jsonl === undefined ? openParquet(path) : await openJsonl(path);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    throw badInput([{ path, reason: `cannot be written (${code})` }]);
  }
}

async function writeAll(
  client: JobClient,
  file: EpisodeFile,
  wanted: AsyncIterable<{ readonly summary: EpisodeSummary }>,
  { terminal }: CommandContext,
): Promise<number> {
  let written = 0;
  for await (const exported of bodies(client, wanted)) {
    await file.add(exported);
    written += 1;
    if (written % PROGRESS_EVERY === 0) terminal.error(`${formatCount(written)} episodes …`);
  }
  return written;
}

async function* bodies(
  client: JobClient,
  wanted: AsyncIterable<{ readonly summary: EpisodeSummary }>,
): AsyncGenerator<ExportedEpisode> {
  const fetching: Promise<ExportedEpisode>[] = [];
  for await (const { summary } of wanted) {
    const body = fetchBody(client, summary.episodeId);
    body.catch(() => undefined); // It is thrown when its turn comes.
    fetching.push(body);
    if (fetching.length >= AHEAD) yield await (fetching.shift() as Promise<ExportedEpisode>);
  }
  for (const body of fetching) yield await body;
}

async function fetchBody(client: JobClient, episodeId: string): Promise<ExportedEpisode> {
  const { episode, trainedInStep } = await client.getEpisode({ episodeId });
  if (episode) return { episode, trainedInStep };
  throw new Error(`the controller answered without episode ${episodeId}`);
}
