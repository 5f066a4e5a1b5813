// SPDX-License-Identifier: Apache-2.0

/**
 * Everything that keeps a command inside, by name. The escape suite takes each away in turn and sees its attacks succeed; nobody
 * else may.
 */
export const GUARDS = [
  "root folder", // its own view of files: /usr and its workspace, nothing else
  "read-only", // what is not the workspace cannot be written
  "environment", // no variable of ours
  "process namespace",
  "network namespace",
  "ipc namespace",
  "host name",
  "session", // no signal reaches the processes that keep it
  "capabilities",
  "seccomp",
  "memory",
  "processes",
  "disk",
  "disk files",
  "open files",
  "core files",
] as const;
export type Guard = (typeof GUARDS)[number];

export type Without = ReadonlySet<Guard>;
