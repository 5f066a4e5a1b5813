// SPDX-License-Identifier: Apache-2.0
/** Files of this machine into the store of an installation. */
import { open } from "node:fs/promises";

import { isAbort, retry, WhetstoneError } from "@whetstone/core";
import type { Artifact, ArtifactKind } from "@whetstone/proto/artifacts/v1/artifacts";

import { badInput, CliError } from "../cli-error.ts";
import type { ArtifactClient } from "./artifact-client.ts";
import { hashFile, type HashedFile, type LocalFile } from "./local-files.ts";

/** Small enough for a slow line within the deadline, large enough for a fast one. */
const CHUNK_BYTES = 1024 * 1024;
const CALL_DEADLINE_MS = 60_000;
/** A connection that was cut is tried again as often before the command gives up; the push may be gone on with later. */
const ATTEMPTS = 5;
const ABORT_DEADLINE_MS = 10_000;

export interface PushTarget {
  readonly kind: ArtifactKind;
  readonly name: string;
  readonly replace: boolean;
}

export interface PushProgress {
  readonly doing: "reading" | "sending" | "verifying";
  readonly bytes: number;
  readonly total: number;
}

export interface Pushed {
  readonly artifact: Artifact;
  /** Bytes that were sent now; the rest was there. */
  readonly sent: number;
}

export type OnProgress = (progress: PushProgress) => void;

/** An interrupt takes back what was sent. A connection that breaks for good leaves it, and the same command goes on. */
export async function pushFiles(
  client: ArtifactClient,
  target: PushTarget,
  files: readonly LocalFile[],
  { onProgress, signal }: { readonly onProgress: OnProgress; readonly signal: AbortSignal },
): Promise<Pushed> {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  const tell = (doing: PushProgress["doing"]) => (bytes: number) => onProgress({ doing, bytes, total });
  const hashed = await hashAll(files, tell("reading"), signal);
  const wanted = hashed.map(({ path, size, sha256 }) => ({ path, size: BigInt(size), sha256 }));
  const options = { signal, deadlineMs: CALL_DEADLINE_MS };
  const begin = () => client.beginPush({ ...target, files: wanted }, options);
  const { digest, offsets, complete } = await patiently(begin, signal);
  try {
    const sent = complete ? 0 : await sendAll({ client, digest, signal }, hashed, offsets.map(Number), tell("sending"));
    return { artifact: await patiently(() => finish(client, { ...target, digest }, tell("verifying"), signal)), sent };
  } catch (error) {
    throw signal.aborted && isAbort(error) ? await takenBack(client, digest) : error;
  }
}

async function hashAll(
  files: readonly LocalFile[],
  tell: (bytes: number) => void,
  signal: AbortSignal,
): Promise<HashedFile[]> {
  let read = 0;
  const hashed: HashedFile[] = [];
  for (const file of files) {
    const before = read;
    const sha256 = await hashFile(file.place, (bytes) => tell((read += bytes)), signal);
    if (read - before !== file.size) throw changed(file);
    hashed.push({ ...file, sha256 });
  }
  return hashed;
}

interface Push {
  readonly client: ArtifactClient;
  readonly digest: string;
  readonly signal: AbortSignal;
}

async function sendAll(
  push: Push,
  files: readonly HashedFile[],
  offsets: readonly number[],
  tell: (bytes: number) => void,
): Promise<number> {
  const there = offsets.reduce((sum, offset) => sum + offset, 0);
  let done = there;
  for (const [i, file] of files.entries()) {
    const onBytes = (bytes: number): void => tell((done += bytes));
    await sendFile(push, file, offsets[i] ?? 0, onBytes);
  }
  return done - there;
}

async function sendFile(
  { client, digest, signal }: Push,
  { path, place, size }: HashedFile,
  start: number,
  onBytes: (bytes: number) => void,
): Promise<void> {
  if (start >= size) return;
  await using file = await open(place, "r");
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (let offset = start; offset < size;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(CHUNK_BYTES, size - offset), offset);
    if (bytesRead === 0) throw changed({ place });
    const request = { digest, path, offset: BigInt(offset), content: buffer.subarray(0, bytesRead) };
    const options = { signal, deadlineMs: CALL_DEADLINE_MS };
    const next = Number((await patiently(() => client.writeChunk(request, options), signal)).offset);
    onBytes(next - offset);
    offset = next; // Where the answer to a chunk was lost, or somebody pushes the same, it is further on or back.
  }
}

async function finish(
  client: ArtifactClient,
  request: PushTarget & { readonly digest: string },
  tell: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Artifact> {
  for await (const { verified, artifact } of client.finishPush(request, { signal })) {
    tell(Number(verified));
    if (artifact) return artifact;
  }
  throw new CliError("CONTRACT_VIOLATION", "the controller answered without the artifact");
}

/** Every call of a push may be repeated. */
export function patiently<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  const isRetryable = (error: unknown): boolean => {
    const { code } = WhetstoneError.from(error);
    return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
  };
  return retry(call, { attempts: ATTEMPTS, signal, isRetryable });
}

async function takenBack(client: ArtifactClient, digest: string): Promise<CliError> {
  const isGone = await client.abortPush({ digest }, { deadlineMs: ABORT_DEADLINE_MS }).then(
    () => true,
    () => false,
  );
  const left = isGone ? "nothing of it was kept" : "what was sent is swept after a day, unless the push goes on";
  return new CliError("STOPPED", `stopped; ${left}`);
}

function changed({ place }: Pick<LocalFile, "place">): CliError {
  return badInput([{ path: place, reason: "changed while it was pushed: push again when nobody writes it" }]);
}
