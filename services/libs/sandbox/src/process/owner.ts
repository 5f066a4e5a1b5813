// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAbandoned } from "../owned-name.ts";

const OPEN_UP_MS = 60_000;

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
