// SPDX-License-Identifier: Apache-2.0
/** An artifact out of the store, into a folder of this machine: all of it or nothing, and what was interrupted goes on. */
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

import { artifactFileFault } from "@whetstone/core";
import type { Artifact, ArtifactFile } from "@whetstone/proto/artifacts/v1/artifacts";

import { badInput, CliError } from "../cli-error.ts";
import type { ArtifactClient } from "./artifact-client.ts";
import { hashFile } from "./local-files.ts";
import { patiently } from "./push.ts";

export interface PullOptions {
  /** @param bytes  that are here */
  readonly onBytes: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/** @param folder  must not exist, or be empty. What is on its way lies beside it, in "<folder>.part-<digest>". */
export async function pullArtifact(
  client: ArtifactClient,
  { digest, files }: Artifact,
  folder: string,
  { onBytes, signal }: PullOptions,
): Promise<void> {
  await refuseFull(folder);
  const draft = `${folder}.part-${digest.slice(0, 12)}`;
  try {
    let done = 0;
    for (const file of files) {
      const before = done;
      await pullFile(
        client,
        { digest, file, place: join(draft, safe(file)) },
        (bytes) => onBytes(before + bytes),
        signal,
      );
      done += Number(file.size);
    }
    await rename(draft, folder); // Over an empty folder, too; not over one that was filled meanwhile.
  } catch (error) {
    if (signal.aborted) await rm(draft, { recursive: true, force: true });
    throw error;
  }
}

interface Wanted {
  readonly digest: string;
  readonly file: ArtifactFile;
  readonly place: string;
}

async function pullFile(
  client: ArtifactClient,
  { digest, file, place }: Wanted,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  await mkdir(dirname(place), { recursive: true });
  await patiently(() => readRest(client, { digest, file, place }, onBytes, signal), signal);
  if ((await hashFile(place, () => undefined, signal)) === file.sha256) return;
  await rm(place, { force: true });
  throw new CliError("DATA_LOSS", `${file.path} did not arrive as it was sent: pull again`);
}

/** From where an earlier pull ended. */
async function readRest(
  client: ArtifactClient,
  { digest, file, place }: Wanted,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  await using target = await open(place, "a");
  let { size: offset } = await target.stat();
  onBytes(offset);
  if (offset >= Number(file.size)) return;
  const request = { digest, path: file.path, offset: BigInt(offset) };
  for await (const { content } of client.readFile(request, { signal })) {
    await target.writeFile(content);
    onBytes((offset += content.length));
  }
}

/** A controller that names other places than those below the folder is not believed. */
function safe({ path }: ArtifactFile): string {
  const fault = artifactFileFault(path);
  if (fault === undefined) return path;
  throw new CliError("CONTRACT_VIOLATION", fault);
}

async function refuseFull(folder: string): Promise<void> {
  const stats = await stat(folder).catch(() => undefined);
  if (!stats || (stats.isDirectory() && (await readdir(folder)).length === 0)) return;
  throw badInput([{ path: folder, reason: "exists already: name a folder that does not" }]);
}
