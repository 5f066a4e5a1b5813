// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/** Resident memory of a process and all below it in MiB. Undefined where it cannot be told: it is gone, or this is not Linux. */
export function residentMiB(pid: number): number | undefined {
  try {
    const below = childrenOf(pid).reduce((sum, child) => sum + (residentMiB(child) ?? 0), 0);
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1]);
    return below + (pages * PAGE_BYTES) / 2 ** 20;
  } catch {
    return undefined;
  }
}

function childrenOf(pid: number): number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  const lists = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1"));
  return lists.flatMap((list) => list.split(" ").filter(Boolean)).map(Number);
}

const PAGE_BYTES = pageBytes();

/** From our own numbers: AT_PAGESZ is entry 6 of the auxiliary vector. */
function pageBytes(): number {
  try {
    const vector = readFileSync("/proc/self/auxv");
    for (let at = 0; at + 16 <= vector.length; at += 16) {
      if (vector.readBigUInt64LE(at) === 6n) return Number(vector.readBigUInt64LE(at + 8));
    }
  } catch {
    // Not Linux, or not ours to read: the common size.
  }
  return 4096;
}

/** When the machine runs out of memory, the kernel takes this process first, not the service. */
export function offerToKernel(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, "1000");
  } catch {
    // Not Linux, or gone already.
  }
}
