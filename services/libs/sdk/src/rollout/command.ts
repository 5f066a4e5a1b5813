// SPDX-License-Identifier: Apache-2.0
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseOrThrow } from "@whetstone/core";
import { z } from "zod";
import { EpisodeError, FAILURE_CLASSES } from "../failure.ts";
import { defineRollout, type RegisteredRollout } from "../define.ts";
import { bareEnvironment, exitFailure, type Harness, runHarness } from "./harness.ts";
import type { RolloutInput, RolloutResult } from "./rollout.ts";
import type { ProgramEnd } from "./run-program.ts";

export const CommandArgs = z.strictObject({
  command: z.array(z.string()).min(1).describe("Program and arguments; no shell reads them"),
  cwd: z.string().optional().describe("Working directory. Absent: the try's own folder, removed afterwards"),
  env: z.record(z.string(), z.string()).default({}).describe("Added to the environment"),
  exitCodes: z
    .record(z.string().regex(/^[1-9]\d{0,2}$/), z.enum(FAILURE_CLASSES).exclude(["NONE"]))
    .default({})
    .describe('What exit codes mean: {"3": "POLICY"}'),
  sandbox: z
    .strictObject({
      backend: z.enum(["process", "none"]).default("process").describe("none: it runs as the service's user"),
      network: z
        .array(z.string().regex(/^[^\s/:]+:\d{1,5}$/, "must be host:port"))
        .max(64)
        .default([])
        .describe("host:port that it reaches beside the gateway, through the proxy that HTTPS_PROXY names"),
      readable: z
        .array(z.string().startsWith("/"))
        .max(64)
        .default([])
        .describe("folders that it sees beside /usr, of those that the service allows"),
    })
    .prefault({})
    .describe("What keeps it from the machine, where a service plays it"),
});

type Args = z.output<typeof CommandArgs>;

/** A command as a sandbox runs it. */
export interface SandboxedCommand {
  readonly command: readonly string[];
  /** Absent: `folder`. */
  readonly cwd: string | undefined;
  /** @param folder  where it may write, inside  @param baseUrl  the gateway's, inside */
  readonly env: (folder: string, baseUrl: string) => Record<string, string>;
  /** Put into `folder`, by name. */
  readonly files: Readonly<Record<string, string>>;
  /** Of the file in `folder` that is its result. */
  readonly resultFile: string;
  readonly maxResultBytes: number;
  /** The gateway's, as this process reaches it. */
  readonly baseUrl: string;
  /** Unix time in milliseconds. */
  readonly deadline: number;
  readonly sandbox: Args["sandbox"];
}

export type RunSandboxed = (
  command: SandboxedCommand,
  signal: AbortSignal,
) => Promise<{ readonly end: ProgramEnd; readonly result: string | undefined }>;

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

function variables(input: RolloutInput<Args>, folder: string, baseUrl = input.baseUrl): Record<string, string> {
  return {
    OPENAI_BASE_URL: baseUrl,
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
  return parseResult(await readFile(path, "utf8"));
}

function parseResult(text: string): RolloutResult {
  try {
    return JSON.parse(text) as RolloutResult;
  } catch (error) {
    throw new EpisodeError("TASK", `the agent's result file is no JSON: ${(error as Error).message}`, { cause: error });
  }
}

async function runSandboxed(run: RunSandboxed, input: RolloutInput<Args>): Promise<RolloutResult> {
  const { command, cwd, env, exitCodes, sandbox } = input.args;
  const own = (folder: string, baseUrl: string) => ({ ...variables(input, folder, baseUrl), ...env });
  const files = { [TASK_FILE]: JSON.stringify(input.task) };
  const limits = { resultFile: RESULT_FILE, maxResultBytes: MAX_RESULT_BYTES };
  const { baseUrl, deadline, signal } = input;
  const { end, result } = await run({ command, cwd, env: own, files, ...limits, baseUrl, deadline, sandbox }, signal);
  if (end.exitCode !== 0) throw exitFailure(end, exitCodes);
  return result === undefined ? { output: end.stdout.trim() } : parseResult(result);
}

/** @param run  absent: there are no sandboxes here */
export function playCommand(run: RunSandboxed | undefined, input: RolloutInput<Args>): Promise<RolloutResult> {
  const isOpen = run === undefined || input.args.sandbox.backend === "none";
  return isOpen ? runHarness(plain, input) : runSandboxed(run, input);
}

/** The built-in kind "command". What the agent gets and gives: docs/agents.md. @param run  absent: there are no sandboxes here */
export function commandAgentIn(run?: RunSandboxed): RegisteredRollout {
  return defineRollout<Args>({
    kind: "command",
    description:
      "Any program that talks to an OpenAI-compatible server: base URL, key and task come by environment variables.",
    parseArgs: (args) => parseOrThrow(CommandArgs, args, ""),
    argsSchema: z.toJSONSchema(CommandArgs, { io: "input" }),
    run: (input) => playCommand(run, input),
  });
}

/** Where nobody else's code runs: in a program of the user's own, and in the sandbox of a job's module. */
export const commandAgent = commandAgentIn();
