// SPDX-License-Identifier: Apache-2.0
import type { ObjectBucket } from "../object-bucket.ts";
import { sha256Hex } from "./claim.ts";

// Beside a job's bodies, NATS' bucket holds an empty entry for each folder of an object store that bodies of the job were put
// into: `<job>/stored/<digest of the folder>`, with the folder in its metadata. It is there before the first body, so that
// whoever deletes the job finds them, whatever is set by then, and those that no message names, too.

export interface StoredFolder {
  /** "s3://bucket/prefix" */
  readonly store: string;
  /** In the store: "episodes/<installation>/<job>". */
  readonly folder: string;
}

const PART = "stored";

/** Of the name of an entry in the bucket; a body's name has two parts. */
export function isStoredFolder(name: string): boolean {
  const parts = name.split("/");
  return parts.length === 3 && parts[1] === PART;
}

/** Asks each time: the entry goes with its job, and another job may have its name. */
export async function noteFolder(bucket: ObjectBucket, job: string, folder: StoredFolder): Promise<void> {
  const name = entryOf(job, folder);
  await bucket.use(`note ${name}`, async (entries) => {
    const found = await entries.info(name);
    if (found === null || found.deleted) await entries.putBlob({ name, metadata: { ...folder } }, new Uint8Array());
  });
}

export async function foldersOf(bucket: ObjectBucket, job: string): Promise<readonly StoredFolder[]> {
  const entries = await bucket.use(`list what is stored of ${job}`, (all) => all.list());
  return entries
    .filter(({ name }) => isStoredFolder(name) && name.startsWith(`${job}/`))
    .map(({ metadata = {} }) => ({ store: metadata["store"] ?? "", folder: metadata["folder"] ?? "" }));
}

export async function forgetFolder(bucket: ObjectBucket, job: string, folder: StoredFolder): Promise<void> {
  const name = entryOf(job, folder);
  await bucket.use(`forget ${name}`, (entries) => entries.delete(name));
}

function entryOf(job: string, { store, folder }: StoredFolder): string {
  return `${job}/${PART}/${sha256Hex(Buffer.from(`${store}/${folder}`))}`;
}
