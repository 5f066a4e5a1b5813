// SPDX-License-Identifier: Apache-2.0
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseOrThrow } from "@whetstone/core";
import { z } from "zod";
import { EpisodeError, FAILURE_CLASSES } from "../failure.ts";
import { bareEnvironment, defineHarness, exitFailure, type Harness } from "./harness.ts";
import type { RolloutInput, RolloutResult } from "./rollout.ts";

const CommandArgs = z.strictObject({
  command: z.array(z.string()).min(1).describe("Program and arguments; no shell reads them"),
  cwd: z.string().optional().describe("Working directory. Absent: the try's own folder, removed afterwards"),
  env: z.record(z.string(), z.string()).default({}).describe("Added to the environment"),
  exitCodes: z
    .record(z.string().regex(/^[1-9]\d{0,2}$/), z.enum(FAILURE_CLASSES).exclude(["NONE"]))
    .default({})
    .describe('What exit codes mean: {"3": "POLICY"}'),
});

type Args = z.output<typeof CommandArgs>;

const TASK_FILE = "task.json";
const RESULT_FILE = "result.json";
const MAX_RESULT_BYTES = 16 * 1024 * 1024;

const plain: Harness<Args> = {
  async prepare(input, folder) {
    const { command, cwd = folder, env } = input.args;
    await writeFile(join(folder, TASK_FILE), JSON.stringify(input.task));
    return { command, cwd, env: { ...bareEnvironment(folder), ...variables(input, folder), ...env } };
  },

  async report({ args }, folder, end) {
    if (end.exitCode !== 0) throw exitFailure(end, args.exitCodes);
    return (await readResult(join(folder, RESULT_FILE))) ?? { output: end.stdout.trim() };
  },
};

function variables(input: RolloutInput<Args>, folder: string): Record<string, string> {
  return {
    OPENAI_BASE_URL: input.baseUrl,
    OPENAI_API_KEY: input.apiKey,
    WHETSTONE_MODEL: input.model,
    WHETSTONE_TASK_FILE: join(folder, TASK_FILE),
    WHETSTONE_RESULT_FILE: join(folder, RESULT_FILE),
    WHETSTONE_EPISODE: input.episodeId,
    WHETSTONE_SEED: String(input.seed),
    WHETSTONE_DEADLINE: String(Math.round(input.deadline)),
  };
}

/** @returns undefined when the agent wrote none. */
async function readResult(path: string): Promise<RolloutResult | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return undefined;
  if (found.size > MAX_RESULT_BYTES) throw new EpisodeError("TASK", "the agent's result file is larger than 16 MiB");
  try {
    return JSON.parse(await readFile(path, "utf8")) as RolloutResult;
  } catch (error) {
    throw new EpisodeError("TASK", `the agent's result file is no JSON: ${(error as Error).message}`, { cause: error });
  }
}

/** The built-in kind "command". What the agent gets and gives: docs/agents.md. */
export const commandAgent = defineHarness<Args>({
  kind: "command",
  description:
    "Any program that talks to an OpenAI-compatible server: base URL, key and task come by environment variables.",
  parseArgs: (args) => parseOrThrow(CommandArgs, args, ""),
  argsSchema: z.toJSONSchema(CommandArgs, { io: "input" }),
  harness: plain,
});
