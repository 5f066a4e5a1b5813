// SPDX-License-Identifier: Apache-2.0
/** `state.json` of a run's newest checkpoint (ARCHITECTURE.md, "Names"). */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { WhetstoneError } from "@whetstone/core";
import { z } from "zod";

import type { CheckpointFacts } from "./audit-facts.ts";

const StateSchema = z.object({
  format: z.literal("whetstone.checkpoint/v1"),
  jobUid: z.string(),
  step: z.int().min(0),
  consumed: z.array(
    z.object({
      step: z.int().min(0),
      batchDigest: z.string(),
      episodes: z.int().min(0),
      dropped: z.array(z.string()).default([]),
    }),
  ),
});

/** The newest complete checkpoint: state.json is written last. Undefined: none yet. Throws when it is not one of ours. */
export function newestCheckpoint(runFolder: string, jobUid: string): CheckpointFacts | undefined {
  const folder = join(runFolder, "checkpoints");
  if (!existsSync(folder)) return undefined;
  const steps = readdirSync(folder).flatMap((name) => /^step-(\d+)$/.exec(name)?.[1] ?? []);
  const newestFirst = steps.map(Number).sort((a, b) => b - a);
  const paths = newestFirst.map((step) => join(folder, `step-${step}`, "state.json"));
  const path = paths.find((candidate) => existsSync(candidate));
  return path === undefined ? undefined : readState(textOf(path), path, jobUid);
}

/** @param path  where it is, as people read it */
export function readState(text: string, path: string, jobUid: string): CheckpointFacts {
  const parsed = StateSchema.safeParse(parseJson(text, path));
  if (!parsed.success)
    throw new WhetstoneError("DATA_LOSS", `${path} is not a checkpoint's state: ${z.prettifyError(parsed.error)}`);
  if (parsed.data.jobUid !== jobUid)
    throw new WhetstoneError("DATA_LOSS", `${path} belongs to the run ${parsed.data.jobUid}, not ${jobUid}`);
  return parsed.data;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new WhetstoneError("DATA_LOSS", `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new WhetstoneError("DATA_LOSS", `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
