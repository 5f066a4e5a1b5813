// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { ConfigError, parseOrThrow } from "@whetstone/core";
import { HarborEpisode, type HarborTask, imageOf, limitsOf, readTask, requireFollowable } from "@whetstone/harbor";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { TOOLSETS } from "@whetstone/swe";
import { ToolEnvironment } from "@whetstone/tools";
import { z } from "zod";
import { LeastLevel, SandboxChoiceOfImages } from "../sandboxes/choice.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

const milliseconds = (most: number) => z.number().int().min(1).max(most);

const HarborArgs = z
  .strictObject({
    tasks: z.string().min(1).describe("a folder (or artifact) of task folders"),
    task: z
      .string()
      .regex(/^(?!\.)[\w.-]{1,200}$/u, "must be the name of a folder")
      .describe("name of the task's folder; usually it comes with the task"),
    image: z
      .string()
      .min(1)
      .max(500)
      .optional()
      .describe('of tasks that name no docker_image; "{task}" in it is the task\'s name'),
    writable: z.array(z.string()).max(12).default([]).describe("folders of the image that commands may write, too"),
    states: z
      .string()
      .min(1)
      .optional()
      .describe("where there are no images: a folder (or artifact) with one folder a task, what / holds at first"),
    environment: z
      .record(z.string(), z.string())
      .default({})
      .describe("variables of every command, and those that task.toml asks for"),
    toolset: z
      .enum(TOOLSETS)
      .default("bash")
      .describe("bash: one tool; r2e-gym: file_editor, execute_bash, search and finish"),
    rewardKey: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe("which number of reward.json counts. Default: reward, or the only one"),
    timeoutMultiplier: z.number().min(0.01).max(100).default(1).describe("of the times that task.toml says"),
    maxSteps: z.number().int().min(1).max(1000).default(50).describe("turns"),
    commandTimeoutMs: milliseconds(3_600_000).default(90_000).describe("of one command of the agent's"),
    maxOutputCharacters: z.number().int().min(100).max(1_000_000).default(10_000).describe("of one command's output"),
    memoryMiB: z
      .number()
      .int()
      .min(64)
      .max(65_536)
      .default(2048)
      .describe("of an episode's processes and files; a task that wants more is refused"),
    diskMiB: z.number().int().min(1).max(65_536).default(1024).describe("that may be written, at most"),
    ttlMs: milliseconds(86_400_000).default(7_200_000).describe("a sandbox ends after this time, whoever holds it"),
    sandboxLevel: LeastLevel,
    sandbox: SandboxChoiceOfImages,
    metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
  })
  .refine(({ states, sandbox }) => states === undefined || sandbox.backend === "process", {
    path: ["states"],
    error: "is of the backend process; others have images",
  });

type HarborArguments = z.output<typeof HarborArgs>;

/** What the arguments name, read and checked. */
interface Playable {
  readonly args: HarborArguments;
  readonly task: HarborTask;
  /** Undefined where there are none. */
  readonly image: string | undefined;
  readonly limits: ReturnType<typeof limitsOf>;
}

/** Beyond a command's own time: for its sandbox to start it, and to end it. */
const COMMAND_MORE_MS = 15_000;
/** Around the output: exit code, marks, what says that something was left out. */
const FRAME_CHARACTERS = 300;

export function harborEnvironment(sandboxes: Sandboxes): RegisteredEnvironment {
  return defineEnvironment<Playable>({
    kind: "harbor",
    description: "A task folder of Harbor's: an instruction, a shell, and tests that write the reward.",
    seedable: true,
    parseArgs: (args) => playable(parseOrThrow(HarborArgs, args, "")),
    argsSchema: z.toJSONSchema(HarborArgs, { io: "input" }),
    create: (given) => environmentOf(sandboxes, given),
  });
}

function environmentOf(sandboxes: Sandboxes, { args, task, image, limits }: Playable): ToolEnvironment {
  const { toolset, commandTimeoutMs, maxOutputCharacters, timeoutMultiplier, rewardKey, maxSteps } = args;
  const { environment, writable, ttlMs, sandbox } = args;
  const given = { environment, writable, ttlMs, reach: sandbox.network };
  const grading = { rewardKey, timeoutMultiplier };
  const times = { commandTimeoutMs, maxOutputBytes: maxOutputCharacters };
  const own = { ...given, limits: { ...limits, wallMs: commandTimeoutMs } };
  const episode = new HarborEpisode({ task, toolset, ...times, sandbox: own, grading });
  return new ToolEnvironment({
    task: { question: task.instruction },
    tools: async () => episode.open({ ...(await sandboxes.repositories(args.states, args)), image }),
    rewardFunction: (_task, _answer, options) => episode.grade(options),
    maxSteps,
    timeoutMs: commandTimeoutMs + COMMAND_MORE_MS,
    maxOutputCharacters: Math.max(maxOutputCharacters, toolset === "bash" ? 0 : 10_000) + FRAME_CHARACTERS,
  });
}

/** @throws ConfigError */
function playable(args: HarborArguments): Playable {
  const { image, states, sandbox } = args;
  const hasImages = sandbox.backend !== "process";
  const task = taskOf(args, !hasImages && states === undefined);
  const limits = limitsOf(task, args);
  if (!hasImages) return { args, task, image: undefined, limits };
  const otherwise = sandbox.backend === "docker" ? sandbox.image : undefined;
  return { args, task, image: imageOf(task, image ?? otherwise), limits };
}

/** @throws ConfigError at `task`, whose reason names the file and its field */
function taskOf({ tasks, task: name }: HarborArguments, isBuiltHere: boolean): HarborTask {
  try {
    const task = readTask(join(tasks, name));
    if (isBuiltHere) requireFollowable(task);
    return task;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(error.violations.map(({ path, reason }) => ({ path: "task", reason: `${path}: ${reason}` })));
  }
}
