// SPDX-License-Identifier: Apache-2.0
import type { ChildProcess } from "node:child_process";

/**
 * Kills a child that leads a process group, with all of its group. A bubblewrap that ends while it starts leaves a child behind
 * which waits for it for ever and holds our pipes, so this is done after its end too.
 */
export function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
