// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import {
  checkSweBenchRow,
  InstanceEpisode,
  R2E_GYM_FIELDS,
  R2E_GYM_OTHER_COLUMNS,
  r2eGymTask,
  type RepositoryTask,
  SWE_BENCH_FIELDS,
  SWE_BENCH_OTHER_COLUMNS,
  sweBenchTask,
  TOOLSETS,
} from "@whetstone/swe";
import { ToolEnvironment } from "@whetstone/tools";
import { z } from "zod";
import { LeastLevel, SandboxChoiceOfImages } from "../sandboxes/choice.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

// Repositories in the formats of others: SWE-bench's and R2E-Gym's. What differs is the task; all else is the same.

const milliseconds = (most: number) => z.number().int().min(1).max(most);

const SETTINGS = {
  states: z
    .string()
    .min(1)
    .optional()
    .describe("a folder (or artifact) with one folder a task: what /workspace holds at first. Default: tasks' images"),
  repository: z
    .string()
    .regex(/^\/[^\0]{0,999}$/u)
    .default("/testbed")
    .describe("where the repository lies, absolute"),
  environment: z.record(z.string(), z.string()).default({}).describe("variables of every command"),
  toolset: z
    .enum(TOOLSETS)
    .default("bash")
    .describe("bash: one tool; r2e-gym: file_editor, execute_bash, search and finish"),
  reward: z
    .enum(["resolved", "dense"])
    .default("resolved")
    .describe("resolved: 1 when the format's own rule says so; dense: how many tests are as they should be"),
  maxSteps: z.number().int().min(1).max(1000).default(50).describe("turns"),
  commandTimeoutMs: milliseconds(3_600_000).default(90_000).describe("of one command"),
  testTimeoutMs: milliseconds(14_400_000).default(1_800_000).describe("of the tests, and of what prepares them"),
  maxOutputCharacters: z.number().int().min(100).max(1_000_000).default(10_000).describe("of one command's output"),
  memoryMiB: z.number().int().min(64).max(65_536).default(4096).describe("of an episode's processes and files"),
  diskMiB: z.number().int().min(1).max(65_536).default(2048).describe("that may be written"),
  ttlMs: milliseconds(86_400_000).default(7_200_000).describe("a sandbox ends after this time, whoever holds it"),
  sandboxLevel: LeastLevel,
  sandbox: SandboxChoiceOfImages,
  metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
} as const;

const optional = <T extends Record<string, z.ZodType>>(columns: T) => z.strictObject(columns).partial().shape;

const SweBenchArgs = z
  .strictObject({ ...SETTINGS, ...SWE_BENCH_FIELDS, ...optional(SWE_BENCH_OTHER_COLUMNS) })
  .superRefine(checkSweBenchRow);
const R2eGymArgs = z.strictObject({ ...SETTINGS, ...R2E_GYM_FIELDS, ...optional(R2E_GYM_OTHER_COLUMNS) });

type Settings = z.output<z.ZodObject<typeof SETTINGS>>;

export function sweBenchEnvironment(sandboxes: Sandboxes): RegisteredEnvironment {
  return defineEnvironment<z.output<typeof SweBenchArgs>>({
    kind: "swe-bench",
    description:
      "A repository with a report, as SWE-bench's rows say it. Their eval script judges the patch in a clean sandbox.",
    seedable: true,
    parseArgs: (args) => parseOrThrow(SweBenchArgs, args, ""),
    argsSchema: z.toJSONSchema(SweBenchArgs, { io: "input" }),
    create: (args) => environmentOf(sandboxes, args, sweBenchTask(args)),
  });
}

export function r2eGymEnvironment(sandboxes: Sandboxes): RegisteredEnvironment {
  return defineEnvironment<z.output<typeof R2eGymArgs>>({
    kind: "r2e-gym",
    description: "A repository with a report, as R2E-Gym's rows say it. Every test must come out as they expect.",
    seedable: true,
    parseArgs: (args) => parseOrThrow(R2eGymArgs, args, ""),
    argsSchema: z.toJSONSchema(R2eGymArgs, { io: "input" }),
    create: (args) => environmentOf(sandboxes, args, r2eGymTask(args)),
  });
}

/** Beyond a command's own time: for its sandbox to start it, and to end it. */
const COMMAND_MORE_MS = 15_000;
/** Around the output: exit code, marks, what says that something was left out. */
const FRAME_CHARACTERS = 300;

function environmentOf(sandboxes: Sandboxes, args: Settings, task: RepositoryTask): ToolEnvironment {
  const { toolset, reward, commandTimeoutMs, testTimeoutMs, maxOutputCharacters, ttlMs } = args;
  const { repository: root, environment, memoryMiB, diskMiB, maxSteps, sandbox } = args;
  const limits = { memoryMiB, diskMiB, wallMs: commandTimeoutMs };
  const repository = { root, environment, limits, ttlMs, reach: sandbox.network };
  const times = { commandTimeoutMs, testTimeoutMs, maxOutputBytes: maxOutputCharacters };
  const episode = new InstanceEpisode({ task, toolset, reward, ...times, repository });
  return new ToolEnvironment({
    task: { question: task.statement },
    tools: async () => episode.open(await sandboxes.repositories(args.states, args)),
    rewardFunction: (_task, _answer, options) => episode.grade(options),
    maxSteps,
    timeoutMs: commandTimeoutMs + COMMAND_MORE_MS,
    maxOutputCharacters: Math.max(maxOutputCharacters, toolset === "bash" ? 0 : 10_000) + FRAME_CHARACTERS,
  });
}
