// SPDX-License-Identifier: Apache-2.0
/** `whet servings feedback`: live answers with what clients said of them, as tasks to train on. */
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

import { badInput } from "../cli-error.ts";
import { formatCount } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { numberOf } from "./number-of.ts";
import { connect } from "./servings.ts";

/** A file of a million may take a while. */
const READ_MS = 600_000;
const MOST = 1e6;

interface FeedbackFlags extends CommonOptions {
  readonly jsonl: string;
  readonly minReward?: string;
}

/** Writes the file whole or not at all; each answer's newest feedback counts. */
export async function exportFeedback(name: string, flags: FeedbackFlags, context: CommandContext): Promise<void> {
  const least =
    flags.minReward === undefined ? -MOST : numberOf("--min-reward", flags.minReward, 0, { least: -MOST, most: MOST });
  await using client = connect(flags, context);
  const newest = new Map<string, { line: string; reward: number }>();
  for await (const { tasks } of client.streamFeedback({ name }, { signal: context.signal, deadlineMs: READ_MS }))
    for (const line of tasks) {
      const { answer, reward } = (JSON.parse(line) as { payload: { answer: string; reward: number } }).payload;
      newest.delete(answer); // In the order of what was said last.
      newest.set(answer, { line, reward });
    }
  const chosen = [...newest.values()].filter(({ reward }) => reward >= least);
  if (newest.size === 0)
    throw badInput([{ path: "<name>", reason: `nobody has said anything of answers of "${name}"` }]);
  await writeLines(
    flags.jsonl,
    chosen.map(({ line }) => line),
    context.signal,
  );
  const { terminal } = context;
  if (flags.json === true)
    return terminal.json({ name, path: flags.jsonl, tasks: chosen.length, answers: newest.size });
  terminal.line(`${formatCount(chosen.length)} of ${formatCount(newest.size)} answers in ${flags.jsonl}`);
}

async function writeLines(path: string, lines: readonly string[], signal: AbortSignal): Promise<void> {
  const draft = `${path}.draft`;
  try {
    await pipeline(
      function* () {
        for (const line of lines) yield `${line}\n`;
      },
      createWriteStream(draft),
      { signal },
    );
    await rename(draft, path);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    throw code.startsWith("E") ? badInput([{ path: "--jsonl", reason: `cannot be written (${code})` }]) : error;
  } finally {
    await rm(draft, { force: true });
  }
}
