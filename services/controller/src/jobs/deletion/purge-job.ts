// SPDX-License-Identifier: Apache-2.0
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { deleteJobStreams, type Nats } from "@whetstone/messaging";
import { eraseLedger } from "../../loop/batch/kv-ledger.ts";
import type { JobStore } from "../job-store.ts";

export interface PurgeDeps {
  readonly nats: Nats;
  readonly store: JobStore;
  readonly dataPath: string;
}

/** Deletes what belongs to a job. Safe to repeat, and to be killed in: whoever comes after finds what is left to do. */
export async function purgeJob(
  { nats, store, dataPath }: PurgeDeps,
  { name, uid }: { readonly name: string; readonly uid: string },
  { runFolder }: { readonly runFolder: boolean },
): Promise<void> {
  await deleteJobStreams(nats, name);
  await eraseLedger(nats, name);
  if (runFolder) await rm(join(dataPath, "runs", uid), { recursive: true, force: true });
  await store.remove(name, uid); // Last: as long as it is there, so is the job.
}
