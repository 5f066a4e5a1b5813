// SPDX-License-Identifier: Apache-2.0
import { statfs } from "node:fs/promises";
import { WhetstoneError } from "@whetstone/core";

const MIB = 1024 * 1024;
/** Stays free for checkpoints of the job that runs: so many bytes, and on a small volume at most this share of it. */
const RESERVE_BYTES = 256 * MIB;
const RESERVE_SHARE = 0.05;

/** @throws RESOURCE_EXHAUSTED where `needed` more bytes would fill the volume */
export async function requireRoom(folder: string, needed: number): Promise<void> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const [free, reserve] = [bavail * bsize, Math.min(RESERVE_BYTES, RESERVE_SHARE * blocks * bsize)];
  if (needed === 0 || needed + reserve <= free) return;
  throw full(`has ${mib(free)} free, of which ${mib(reserve)} stay for checkpoints; ${mib(needed)} are needed`);
}

/** Whether the disk is full, or the quota used up. */
export function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

export function full(what: string): WhetstoneError {
  const advice = "remove what is not needed with `whet models|datasets|tasks rm` or `whet jobs delete`, or enlarge it";
  return new WhetstoneError("RESOURCE_EXHAUSTED", `the data volume ${what}: ${advice}`, { retry: "never" });
}

const mib = (bytes: number): string => `${Math.ceil(bytes / MIB)} MiB`;
