// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { SweEpisode, SweTaskSchema, TOOLSETS } from "@whetstone/swe";
import { ToolEnvironment } from "@whetstone/tools";
import { z } from "zod";
import { LeastLevel, SandboxChoice } from "../sandboxes/choice.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

const milliseconds = (most: number) => z.number().int().min(1).max(most);

const SweArgs = SweTaskSchema.extend({
  libraries: z
    .string()
    .min(1)
    .describe("libraries as `whet tasks make swe` made them: an artifact (artifact://tasks/…) or path of a folder"),
  hintsShown: z.number().int().min(0).max(10).default(0).describe("how many of the task's hints the agent is told"),
  hideTests: z.boolean().default(false).describe("take the files away that hold the failing tests"),
  toolset: z
    .enum(TOOLSETS)
    .default("bash")
    .describe("bash: one tool; r2e-gym: file_editor, execute_bash, search and finish"),
  reward: z
    .enum(["resolved", "dense"])
    .default("resolved")
    .describe("resolved: 1 when every broken test passes and no other one fails; dense: the product of both shares"),
  maxSteps: z.number().int().min(1).max(1000).default(50).describe("turns"),
  commandTimeoutMs: milliseconds(3_600_000).default(60_000).describe("of one command"),
  maxOutputCharacters: z.number().int().min(100).max(1_000_000).default(10_000).describe("of one command's output"),
  memoryMiB: z.number().int().min(64).max(65_536).default(1024).describe("of an episode's processes and files"),
  diskMiB: z.number().int().min(1).max(65_536).default(256).describe("that may be written"),
  ttlMs: milliseconds(86_400_000).default(3_600_000).describe("the sandbox ends after this time, whoever holds it"),
  sandboxLevel: LeastLevel,
  sandbox: SandboxChoice,
  metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
});

type SweArguments = z.output<typeof SweArgs>;

/** Beyond a command's own time: for its sandbox to start it, and to end it. */
const COMMAND_MORE_MS = 15_000;
/** Around the output: exit code, marks, what says that something was left out. */
const FRAME_CHARACTERS = 300;

export function sweEnvironment(sandboxes: Sandboxes): RegisteredEnvironment {
  return defineEnvironment<SweArguments>({
    kind: "swe",
    description:
      "A library with a bug, and bash to find and repair it. Its own tests judge the repair, in a clean sandbox.",
    seedable: true,
    parseArgs: (args) => parseOrThrow(SweArgs, args, ""),
    argsSchema: z.toJSONSchema(SweArgs, { io: "input" }),
    create: (args) => {
      const episode = openable(args);
      return new ToolEnvironment({
        task: { question: questionOf(args) },
        tools: async () => episode.open(await sandboxes.libraries(args.libraries, args)),
        rewardFunction: (_task, _answer, options) => episode.grade(options),
        maxSteps: args.maxSteps,
        timeoutMs: args.commandTimeoutMs + COMMAND_MORE_MS,
        maxOutputCharacters: args.maxOutputCharacters + FRAME_CHARACTERS,
      });
    },
  });
}

function openable(args: SweArguments): SweEpisode {
  const { memoryMiB, diskMiB, commandTimeoutMs, maxOutputCharacters, ttlMs, reward, hideTests, toolset, sandbox } =
    args;
  const limits = { memoryMiB, diskMiB, wallMs: commandTimeoutMs };
  return new SweEpisode({
    task: args,
    reward,
    hideTests,
    toolset,
    commandTimeoutMs,
    reach: sandbox.network,
    maxOutputBytes: maxOutputCharacters,
    limits,
    ttlMs,
  });
}

function questionOf({ statement, hints, hintsShown }: SweArguments): string {
  const told = hints.slice(0, hintsShown);
  return told.length === 0 ? statement : `${statement}\n\nHints:\n${told.map((hint) => `- ${hint}`).join("\n")}`;
}
