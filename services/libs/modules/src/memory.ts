// SPDX-License-Identifier: Apache-2.0
import { readFileSync, writeFileSync } from "node:fs";

/** Resident memory of a process in MiB. Undefined where it cannot be told: the process is gone, or this is not Linux. */
export function residentMiB(pid: number): number | undefined {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1]);
    return (pages * PAGE_BYTES) / 2 ** 20;
  } catch {
    return undefined;
  }
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
