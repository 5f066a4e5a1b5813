// SPDX-License-Identifier: Apache-2.0
/** Facts about processes, and signals to whole process groups. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * Something that tells this process from a later one with the same id: its start time. Undefined: no such process.
 * A zombie counts as gone: it holds neither ports nor files.
 */
export function startTime(pid: number): string | undefined {
  if (process.platform !== "linux") return startTimeByPs(pid);
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The command's name, in brackets, may hold anything; the fields after it are plain. State is field 3, start 22.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function startTimeByPs(pid: number): string | undefined {
  try {
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim() || undefined;
  } catch {
    return undefined;
  }
}

/** Whether exactly that process still runs. */
export function isSameProcess(pid: number, started: string): boolean {
  return startTime(pid) === started;
}

/** Resident memory in bytes. Undefined: not running, or the system does not say. */
export function residentBytes(pid: number): number | undefined {
  try {
    if (process.platform === "linux") {
      const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
      return kib === undefined ? undefined : Number(kib) * 1024;
    }
    return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) * 1024;
  } catch {
    return undefined;
  }
}

/** Signals every member of a process group. Answers false when it has none left. */
export function signalGroup(group: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}

/** Whether any member of the group still runs. */
export function groupAlive(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resolves true once `gone()` holds, false when `withinMs` passed. Polls: the process may not be our child. */
export async function waitGone(gone: () => boolean, withinMs: number): Promise<boolean> {
  const end = performance.now() + withinMs;
  while (!gone()) {
    if (performance.now() > end) return false;
    await delay(25);
  }
  return true;
}
