// SPDX-License-Identifier: Apache-2.0
import { createHash, randomBytes } from "node:crypto";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

import { WhetstoneError } from "@whetstone/core";

import { type DatasetTask, taskLine } from "./task.ts";

/** A written file of tasks. */
export interface TaskFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  /** SHA-256 of the file, lower-case hex. */
  readonly digest: string;
}

const CHUNK_CHARACTERS = 1 << 20;

/**
 * Writes tasks one a line: all of them or nothing, whenever it is interrupted.
 * @param place  The path for this digest; called when all is written, right before the file takes its place.
 * @throws WhetstoneError INVALID_ARGUMENT when there are no tasks, or two have one id.
 */
export async function writeTasks(
  tasks: AsyncIterable<DatasetTask>,
  folder: string,
  place: (digest: string) => string | Promise<string>,
): Promise<TaskFile> {
  await mkdir(folder, { recursive: true });
  const draft = `${folder}/.draft-${randomBytes(6).toString("hex")}`;
  try {
    const written = await writeDraft(tasks, draft);
    const path = await place(written.digest);
    await rename(draft, path);
    await syncFolder(dirname(path));
    return { path, ...written };
  } finally {
    await rm(draft, { force: true });
  }
}

async function writeDraft(tasks: AsyncIterable<DatasetTask>, path: string): Promise<Omit<TaskFile, "path">> {
  const hash = createHash("sha256");
  const count = { rows: 0, bytes: 0 };
  await using file = await open(path, "wx");
  const flush = async (text: string): Promise<void> => {
    const bytes = Buffer.from(text);
    hash.update(bytes);
    count.bytes += bytes.length;
    await file.write(bytes);
  };
  let chunk = "";
  for await (const task of withoutTwins(tasks)) {
    chunk += taskLine(task);
    count.rows += 1;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    await flush(chunk);
    chunk = "";
  }
  await flush(chunk);
  await file.sync();
  if (count.rows === 0)
    throw new WhetstoneError("INVALID_ARGUMENT", "a dataset needs at least one task; this has none");
  return { ...count, digest: hash.digest("hex") };
}

async function* withoutTwins(tasks: AsyncIterable<DatasetTask>): AsyncGenerator<DatasetTask> {
  const ids = new Set<string>();
  for await (const task of tasks) {
    if (ids.has(task.id))
      throw new WhetstoneError("INVALID_ARGUMENT", `two tasks have the id "${task.id}": ids are unique in a dataset`);
    ids.add(task.id);
    yield task;
  }
}

/** So that the new name outlives a power cut. */
async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, "r");
  await folder.sync();
}
