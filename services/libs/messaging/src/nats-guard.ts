// SPDX-License-Identifier: Apache-2.0
import { statfs } from "node:fs/promises";
import { sleep } from "@whetstone/core";
import { writeRefusal } from "./write-health.ts";

const LOOK_MS = 2_000;
/** Looks left out after a restart: the server reads its streams first. */
const REST_LOOKS = 5;
const MIB = 1024 * 1024;

export interface GuardOptions {
  /** Of the server's monitoring port. */
  readonly monitor: string;
  readonly storeDirectory: string;
  /** Ends the server; whoever keeps it running starts it again. */
  restart(why: string): void | Promise<void>;
  /** Called when the server begins to refuse writes, when the reason changes, and, with undefined, when that is over. */
  onChange?(refusal: NatsRefusal | undefined): void;
  readonly signal: AbortSignal;
  /** Between two looks; default 2,000. */
  readonly lookMs?: number;
}

export interface NatsRefusal {
  /** In the server's words. */
  readonly why: string;
  /** Of the volume of its store. */
  readonly freeBytes: number;
  readonly neededBytes: number;
}

/**
 * Watches a nats-server whose disk may fill up, and has it started again once there is space: it does not take writes again
 * by itself. Returns when the signal aborts.
 */
export async function guardNats(options: GuardOptions): Promise<void> {
  const { signal, lookMs = LOOK_MS } = options;
  let said: NatsRefusal | undefined;
  try {
    for (;;) {
      const refusal = await refusalOf(options);
      if (!isSame(refusal, said)) options.onChange?.(refusal);
      said = refusal;
      const hasSpace = refusal !== undefined && refusal.freeBytes >= refusal.neededBytes;
      if (hasSpace) await options.restart(refusal.why);
      await sleep(hasSpace ? lookMs * REST_LOOKS : lookMs, signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function refusalOf({ monitor, storeDirectory, signal }: GuardOptions): Promise<NatsRefusal | undefined> {
  const why = await writeRefusal(monitor, signal);
  return why === undefined ? undefined : { why, ...(await spaceOf(storeDirectory)) };
}

function isSame(a: NatsRefusal | undefined, b: NatsRefusal | undefined): boolean {
  return a?.why === b?.why && a?.freeBytes === b?.freeBytes;
}

/** Free bytes of the volume, and how many there should be before the server may try again: a twentieth, at most 64 MiB. */
export async function spaceOf(directory: string): Promise<{ freeBytes: number; neededBytes: number }> {
  const { bavail, blocks, bsize } = await statfs(directory);
  return { freeBytes: bavail * bsize, neededBytes: Math.min(64 * MIB, (blocks * bsize) / 20) };
}
