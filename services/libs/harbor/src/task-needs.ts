// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import type { SandboxLimits } from "@whetstone/sandbox";
import type { HarborTask } from "./task-folder.ts";

/** @param template  of tasks that name none; "{task}" in it is the task's name. @throws ConfigError at `image` */
export function imageOf({ name, config }: HarborTask, template: string | undefined): string {
  const found = config.environment.docker_image ?? template?.replaceAll("{task}", name);
  if (found !== undefined) return found;
  const reason = `${name}/task.toml names no environment.docker_image: build environment/Dockerfile, and name the image here`;
  throw new ConfigError([{ path: "image", reason }]);
}

type Most = Pick<SandboxLimits, "memoryMiB" | "diskMiB">;

/** The task's own, within these. Of files it has less than it says: they lie in memory. @throws ConfigError at `memoryMiB` */
export function limitsOf({ name, config }: HarborTask, { memoryMiB, diskMiB }: Most): Partial<SandboxLimits> {
  const { memory_mb: memory = memoryMiB, storage_mb: disk = diskMiB, cpus } = config.environment;
  const reason = `${name}/task.toml wants ${memory} MiB (environment.memory_mb): give it as much`;
  if (memory > memoryMiB) throw new ConfigError([{ path: "memoryMiB", reason }]);
  return { memoryMiB: memory, diskMiB: Math.min(disk, diskMiB), ...(cpus !== undefined && { cpus }) };
}
