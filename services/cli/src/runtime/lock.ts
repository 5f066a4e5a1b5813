// SPDX-License-Identifier: Apache-2.0
/** One runtime a data directory: an exclusive lock file that outlives nobody. */
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";

import { badInput } from "../cli-error.ts";
import { isSameProcess, startTime } from "./processes.ts";

export interface LockHolder {
  readonly pid: number;
  readonly started: string;
  readonly instance: string;
}

export interface Lock {
  readonly path: string;
  /** True when a dead runtime's lock was taken over: its children may still be around. */
  readonly tookOver: boolean;
  release(): void;
}

/** Who holds the lock; undefined: nobody, or a process that is gone. */
export function readLock(path: string): LockHolder | undefined {
  const holder = readHolder(path);
  return holder && isSameProcess(holder.pid, holder.started) ? holder : undefined;
}

/**
 * Takes the lock for this process. The file appears with its content in one step (a hard link), so no reader sees half
 * of it. Throws bad input "already running" naming the holder.
 */
export function acquireLock(path: string, instance: string): Lock {
  const own: LockHolder = { pid: process.pid, started: startTime(process.pid) ?? "", instance };
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(own));
  try {
    let tookOver = false;
    while (!tryLink(draft, path)) {
      const holder = readLock(path);
      if (holder) throw alreadyRunning(path, holder);
      removeStale(path);
      tookOver = true;
    }
    return { path, tookOver, release: () => releaseLock(path, instance) };
  } finally {
    rmSync(draft, { force: true });
  }
}

function tryLink(draft: string, path: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Two takers may see the same stale lock: whoever finds a live one in its hands after the rename puts it back. */
function removeStale(path: string): void {
  const aside = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  if (readLock(aside)) tryLink(aside, path);
  rmSync(aside, { force: true });
}

function releaseLock(path: string, instance: string): void {
  if (readHolder(path)?.instance === instance) rmSync(path, { force: true });
}

function readHolder(path: string): LockHolder | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as LockHolder;
  } catch {
    return undefined;
  }
}

function alreadyRunning(path: string, holder: LockHolder): Error {
  const reason = `a runtime is already running here (pid ${holder.pid}); stop it with \`whet down\``;
  return badInput([{ path, reason }], "ALREADY_RUNNING");
}
