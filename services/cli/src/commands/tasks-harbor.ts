// SPDX-License-Identifier: Apache-2.0
/** `whet tasks verify` of Harbor's task folders. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";

import { ConfigError, WhetstoneError } from "@whetstone/core";
import { type HarborDeps, imageOf, limitsOf, proveTask, readTask } from "@whetstone/harbor";
import { ProcessBackend, type SandboxBackend } from "@whetstone/sandbox";
import { StateStore } from "@whetstone/swe";

import { badInput } from "../cli-error.ts";
import { type Verdict, type VerifyCount, type VerifyFlags, verifyAll } from "./verify-all.ts";
import type { CommandContext, Outcome } from "./context.ts";

const MARK = "task.toml";
const DAEMON = "WHETSTONE_SANDBOX_DAEMON_PATH";
/** As the environment `harbor` has them by default. */
const MEMORY_MIB = 2048;
const DISK_MIB = 1024;

/** The folder itself, or those in it. Empty: there are none. */
export function harborFolders(path: string): string[] {
  if (!existsSync(path) || !statSync(path).isDirectory()) return [];
  const folders = [path, ...readdirSync(path).map((name) => join(path, name))];
  return folders.map((folder) => resolve(folder)).filter((folder) => existsSync(join(folder, MARK)));
}

export async function verifyHarborTasks(
  folders: readonly string[],
  { flags, ...count }: VerifyCount & { readonly flags: VerifyFlags },
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  await using backend = await backendOf(flags, context);
  await using states = flags.states === undefined ? undefined : new StateStore(resolve(flags.states), backend);
  const tasks = folders.map((folder) => ({ id: basename(folder), task: folder }));
  const prove = (folder: string): Promise<Verdict> => verdictOf(folder, { backend, states }, flags, context.signal);
  const isNothing = (reward: number): boolean => reward < 1;
  const isJson = flags.json === true;
  const { tasks: tried, unsound } = await verifyAll({ tasks, ...count, isJson, prove, isNothing }, context, outcome);
  if (isJson) context.terminal.json({ tasks: tried.length, unsound });
}

async function backendOf({ docker, image, states }: VerifyFlags, { environment }: CommandContext) {
  if (docker !== true) {
    if (image !== undefined) throw badInput([{ path: "--image", reason: "is of --docker" }]);
    return await ProcessBackend.start();
  }
  if (states !== undefined) throw badInput([{ path: "--states", reason: "is of sandboxes without --docker" }]);
  const daemonPath = environment[DAEMON];
  if (daemonPath === undefined) throw badInput([{ path: "--docker", reason: `needs ${DAEMON} (docs/sandboxes.md)` }]);
  const { DockerBackend } = await import("@whetstone/sandbox/docker");
  return await DockerBackend.start({ daemonPath });
}

type Opened = Pick<HarborDeps, "states"> & { readonly backend: SandboxBackend };

async function verdictOf(
  folder: string,
  opened: Opened,
  { docker, image, rewardKey }: VerifyFlags,
  signal: AbortSignal,
): Promise<Verdict> {
  try {
    const task = readTask(folder);
    const { memory_mb: memoryMiB = MEMORY_MIB } = task.config.environment;
    const deps = { ...opened, image: docker === true ? imageOf(task, image) : undefined };
    const limits = limitsOf(task, { memoryMiB, diskMiB: DISK_MIB });
    return await proveTask(deps, task, { environment: {}, writable: [], limits, rewardKey, signal });
  } catch (error) {
    const { code, message } = WhetstoneError.from(error);
    if (!(error instanceof ConfigError) && code !== "TASK_INVALID" && code !== "GRADER_FAILED") throw error;
    return { error: message };
  }
}
