// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import {
  type ArtifactReference,
  artifactText,
  mapArtifacts,
  parseArtifact,
  type Violation,
  WhetstoneError,
} from "@whetstone/core";
import { type Job, type JobSpec, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Artifacts } from "./artifacts.ts";
import type { ArtifactLayout } from "./layout.ts";

const DIGEST = /@sha256:([0-9a-f]{64})/;

export interface Pinned {
  readonly spec: JobSpec;
  readonly violations: readonly Violation[];
}

/** The spec with the digest of every artifact that it names: what the job has from now on, whatever becomes of the names. */
export async function pinArtifacts(spec: JobSpec, artifacts: Artifacts): Promise<Pinned> {
  const json = toJson(JobSpecSchema, spec) as JsonObject;
  const named = new Map<string, string>();
  mapArtifacts(json, (text, path) => (named.set(path, text), text));
  if (named.size === 0) return { spec, violations: [] };
  const violations: Violation[] = [];
  for (const [path, text] of named)
    try {
      named.set(path, artifactText(await pin(text, path, artifacts)));
    } catch (error) {
      const { code, message } = WhetstoneError.from(error);
      if (code !== "NOT_FOUND" && code !== "INVALID_ARGUMENT") throw error;
      violations.push({ path, reason: message });
    }
  const pinned = mapArtifacts(json, (text, path) => named.get(path) ?? text);
  return { spec: fromJson(JobSpecSchema, pinned), violations };
}

/** What the text of an object, which nobody rewrites, must say itself. */
export function unpinned(spec: JobSpec, pinned: JobSpec): Violation[] {
  const now = new Map<string, string>();
  mapArtifacts(toJson(JobSpecSchema, pinned), (text, path) => (now.set(path, text), text));
  const found: Violation[] = [];
  mapArtifacts(toJson(JobSpecSchema, spec), (text, path) => {
    const wanted = now.get(path);
    if (wanted !== undefined && wanted !== text)
      found.push({ path, reason: `must name the digest in an object: "${wanted}" is what the name has now` });
    return text;
  });
  return found;
}

async function pin(text: string, path: string, artifacts: Artifacts): Promise<ArtifactReference> {
  if (path.startsWith("agent."))
    throw new WhetstoneError("INVALID_ARGUMENT", "agents have no files: name it in environment.args");
  const reference = parseArtifact(text);
  const digest = reference.digest ?? (await artifacts.get(reference.kind, reference.name)).digest;
  const files = (await artifacts.manifest(digest))?.files.map((file) => file.path);
  if (!files) throw new WhetstoneError("NOT_FOUND", `sha256:${digest} is not in the store: push it again`);
  const wanted = reference.file ?? (path.endsWith(".jsonl") ? onlySplit(reference, files) : undefined);
  if (wanted !== undefined && !files.some((file) => file === wanted || file.startsWith(`${wanted}/`)))
    throw new WhetstoneError("NOT_FOUND", `"${reference.name}" has no "${wanted}"; it has ${someOf(files)}`);
  return { ...reference, digest, ...(wanted !== undefined && { file: wanted }) };
}

/** A split need not be named where there is one. */
function onlySplit({ name }: ArtifactReference, files: readonly string[]): string {
  const splits = files.filter((file) => file.endsWith(".jsonl"));
  const [only] = splits;
  if (only !== undefined && splits.length === 1) return only;
  throw new WhetstoneError("INVALID_ARGUMENT", `"${name}" has ${someOf(splits)}: name one after a "/"`);
}

/**
 * The spec with folders and files in place of artifacts, as trainer and engines see them. Arguments are left as they are: an
 * env-runner has no volume, and fetches what they name by digest.
 */
export function withArtifactPaths(spec: JobSpec, layout: ArtifactLayout): JobSpec {
  const json = toJson(JobSpecSchema, spec) as JsonObject;
  let isChanged = false;
  const changed = mapArtifacts(json, (text, path) => {
    isChanged = true;
    return path.startsWith("environment.args.") ? text : placeOf(text, layout);
  });
  return isChanged ? fromJson(JobSpecSchema, changed) : spec;
}

/** The job as it is played. */
export function jobWithPaths(job: Job, layout: ArtifactLayout): Job {
  return job.spec ? { ...job, spec: withArtifactPaths(job.spec, layout) } : job;
}

/** Digests that the job names. */
export function digestsOf({ spec }: Pick<Job, "spec">): Set<string> {
  const found = new Set<string>();
  if (!spec) return found;
  mapArtifacts(toJson(JobSpecSchema, spec), (text) => {
    const digest = DIGEST.exec(text)?.[1];
    if (digest !== undefined) found.add(digest);
    return text;
  });
  return found;
}

/** Of each digest that a job names, the names of these jobs. */
export function jobsByDigest(jobs: readonly Job[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const job of jobs)
    for (const digest of digestsOf(job)) found.set(digest, [...(found.get(digest) ?? []), job.spec?.name ?? ""]);
  return found;
}

function placeOf(text: string, layout: ArtifactLayout): string {
  const { digest, file } = parseArtifact(text);
  if (digest === undefined) return text;
  return join(layout.files(digest), ...(file === undefined ? [] : [file]));
}

function someOf(files: readonly string[]): string {
  const shown = files.slice(0, 5).join(", ");
  return files.length > 5 ? `${shown} and ${files.length - 5} more` : shown || "none";
}
