// SPDX-License-Identifier: Apache-2.0
/** `whet episodes export --pairs`: preferences out of what was played, for `algorithm.dpo`. */
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { taskLine } from "@whetstone/datasets";
import type { Episode } from "@whetstone/proto/types/v1/types";
import type { JobClient } from "../connect/clients.ts";
import { GroupExtremes, pairTask } from "../episodes/preference-pairs.ts";
import { formatCount } from "../terminal/format.ts";
import type { CommandContext } from "./context.ts";
import { type ListFlags, wantedEpisodes } from "./episodes.ts";
import { connect } from "./jobs.ts";

/** Writes the file whole or not at all. */
export async function exportPairs(job: string, path: string, flags: ListFlags, context: CommandContext): Promise<void> {
  const groups = new GroupExtremes();
  for await (const { summary } of wantedEpisodes(job, { last: "0", ...flags }, context)) groups.add(summary);
  context.signal.throwIfAborted();
  await using client = connect(flags, context);
  const draft = `${path}.draft`;
  let pairs = 0;
  const lines = async function* (): AsyncGenerator<string> {
    for (const { best, worst } of groups.pairs()) {
      const task = pairTask(await bodyOf(client, best), await bodyOf(client, worst));
      if (!task) continue;
      pairs += 1;
      yield taskLine(task);
    }
  };
  try {
    await pipeline(lines, createWriteStream(draft), { signal: context.signal });
    await rename(draft, path);
  } finally {
    await rm(draft, { force: true });
  }
  if (flags.json === true) return context.terminal.json({ job, path, pairs, groups: groups.count });
  const others = groups.count - pairs;
  const why = "their rewards are equal, their prompts differ, or several roles played";
  context.terminal.line(`${formatCount(pairs)} pairs in ${path}; ${formatCount(others)} groups have none: ${why}`);
}

async function bodyOf(client: JobClient, episodeId: string): Promise<Episode> {
  const { episode } = await client.getEpisode({ episodeId });
  if (episode) return episode;
  throw new Error(`the controller answered without episode ${episodeId}`);
}
