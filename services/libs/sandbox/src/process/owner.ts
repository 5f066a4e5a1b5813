// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";

// What a process that was killed leaves behind carries its name: its id and the time it started, since ids are given again.

const PREFIX = "whetstone-sandbox";
const NAME = new RegExp(`^${PREFIX}-(\\d+)-(\\d+)-\\d+(-[0-9a-f]+)?$`, "mu");

const OPEN_UP_MS = 60_000;

let made = 0;

/** A name for something of ours. */
export function ownedName(): string {
  made += 1;
  return `${PREFIX}-${process.pid}-${startOf(process.pid)}-${made}`;
}

/**
 * Removes processes, cgroups and folders whose owner is gone. Processes end with their owner by the kernel's doing, but for
 * those of a bubblewrap that was just starting.
 */
export function reap(cgroupParents: readonly string[], folders: readonly string[]): void {
  for (const pid of abandonedProcesses()) kill(pid);
  for (const folder of cgroupParents.flatMap(abandonedIn)) {
    try {
      rmdirSync(folder);
    } catch {
      // A last process is just ending: the next start removes it.
    }
  }
  for (const folder of folders.flatMap(abandonedIn)) removeFolder(folder);
}

/** Its folders may have been closed to us: whoever made them may open them. */
export function removeFolder(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    spawnSync("chmod", ["-R", "u+rwX", "--", folder], { timeout: OPEN_UP_MS });
    rmSync(folder, { recursive: true, force: true });
  }
}

function abandonedIn(folder: string): string[] {
  return readdirSync(folder)
    .filter(isAbandoned)
    .map((name) => join(folder, name));
}

function abandonedProcesses(): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/u.test(name));
  return pids.filter((pid) => isAbandoned(commandOf(pid))).map(Number);
}

/** @param text  a name, or an argument a line */
function isAbandoned(text: string): boolean {
  const [, pid, start] = NAME.exec(text) ?? [];
  return pid !== undefined && startOf(Number(pid)) !== start;
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", "\n");
  } catch {
    return "";
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has just ended, or is somebody else's.
  }
}

/** In clock ticks after the machine's start; undefined: there is no such process. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
