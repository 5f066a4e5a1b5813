// SPDX-License-Identifier: Apache-2.0
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { WhetstoneError } from "@whetstone/core";
import { deleteJobStreams, type Nats, type TypedStreams } from "@whetstone/messaging";
import { eraseLedger } from "../../loop/batch/kv-ledger.ts";
import { DELETING } from "../deleting.ts";
import type { JobStore } from "../job-store.ts";
import type { StoredRuns } from "../stored-runs.ts";

export interface PurgeDeps {
  readonly nats: Nats;
  readonly streams: { readonly claims: Pick<TypedStreams["claims"], "sizeInStore" | "deleteFromStore"> };
  readonly store: JobStore;
  readonly storedRuns: Pick<StoredRuns, "look" | "delete">;
  readonly dataPath: string;
}

export interface Purged {
  readonly name: string;
  readonly uid: string;
}

/** Deletes what belongs to a job. Safe to repeat, and to be killed in: whoever comes after finds what is left to do. */
export async function purgeJob(
  deps: PurgeDeps,
  { name, uid }: Purged,
  { runFolder, signal }: { readonly runFolder: boolean; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const { nats, store, streams, dataPath } = deps;
  await orTellWhy(store, { name, uid }, async () => {
    if (runFolder) await deleteStoredRun(deps, { name, uid }, signal); // Before the ledger, which says where it is.
    await streams.claims.deleteFromStore(name, signal);
  });
  await deleteJobStreams(nats, name);
  await eraseLedger(nats, name);
  if (runFolder) await rm(join(dataPath, "runs", uid), { recursive: true, force: true });
  await store.remove(name, uid); // Last: as long as it is there, so is the job.
}

async function deleteStoredRun(
  { store, storedRuns }: PurgeDeps,
  { name, uid }: Purged,
  signal: AbortSignal | undefined,
): Promise<void> {
  const job = await store.find(name);
  if (job?.uid === uid) await storedRuns.delete(job, signal);
}

/** Of a store that fails, the job's status says so, as does what is thrown. */
async function orTellWhy(store: JobStore, { name, uid }: Purged, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { code, message, retry } = WhetstoneError.from(error);
    const words = `Not all of it is deleted yet, and it is tried again: ${message}`;
    if ((await store.find(name))?.uid === uid)
      await store.change(name, (stored) => {
        if (stored.uid === uid && stored.status) Object.assign(stored.status, { ...DELETING, message: words });
      });
    throw new WhetstoneError(code, `job "${name}" is not deleted yet, and it is tried again: ${message}`, {
      retry,
      cause: error,
    });
  }
}
