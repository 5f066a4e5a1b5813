// SPDX-License-Identifier: Apache-2.0

/**
 * Everything that keeps a command inside its container, by name. The escape suite takes each away in turn and sees its attacks
 * succeed; nobody else may.
 */
export const CONTAINER_GUARDS = [
  "root folder", // the image's files, and nothing of the host
  "read-only", // what is not /workspace, /tmp or /dev/shm cannot be written
  "process namespace",
  "network namespace",
  "ipc namespace",
  "host name",
  "user", // not root, and no way to become it
  "capabilities",
  "seccomp",
  "memory",
  "processes",
  "disk",
  "disk files",
  "open files",
] as const;
export type ContainerGuard = (typeof CONTAINER_GUARDS)[number];
