// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { join } from "node:path";
import { WhetstoneError } from "./errors.ts";

// A job names what was pushed as "artifact://<kind>/<name>[@sha256:<digest>][/<file>]". The digest is added when the job is
// submitted, so that a name that is given to something else later changes no job.

export const ARTIFACT_KINDS = ["models", "datasets", "tasks"] as const;
export type ArtifactKindName = (typeof ARTIFACT_KINDS)[number];

export interface ArtifactReference {
  readonly kind: ArtifactKindName;
  readonly name: string;
  /** SHA-256 in lower-case hex. Absent: what the name has now. */
  readonly digest?: string;
  /** Absent: the whole folder. */
  readonly file?: string;
}

const SCHEME = "artifact://";
const REFERENCE = /^artifact:\/\/([^/]+)\/([^/@]+)(?:@sha256:([0-9a-f]{64}))?(?:\/(.*))?$/s;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
/** As `artifactFolder` makes it. */
const PLACE = /^.*\/artifacts\/sha256\/([0-9a-f]{64})\/files(?:\/(.+))?$/s;
const RULE = 'must be "artifact://<models, datasets or tasks>/<name>", then "@sha256:<digest>" and "/<file>" if wanted';

export function isArtifact(value: unknown): value is string {
  return typeof value === "string" && value.startsWith(SCHEME);
}

/** @throws INVALID_ARGUMENT with a reason that can stand behind a field's path */
export function parseArtifact(text: string): ArtifactReference {
  const [, kind = "", name = "", digest, file] = REFERENCE.exec(text) ?? [];
  const known = ARTIFACT_KINDS.find((one) => one === kind);
  if (known === undefined) throw invalid(`${RULE}, not "${text}"`);
  const fault = artifactNameFault(name) ?? (file === undefined ? undefined : artifactFileFault(file));
  if (fault !== undefined) throw invalid(`${fault}, in "${text}"`);
  return { kind: known, name, ...(digest && { digest }), ...(file && { file }) };
}

export function artifactText({ kind, name, digest, file }: ArtifactReference): string {
  return `${SCHEME}${kind}/${name}${digest === undefined ? "" : `@sha256:${digest}`}${file === undefined ? "" : `/${file}`}`;
}

/** Undefined: it may be an artifact's name. */
export function artifactNameFault(name: string): string | undefined {
  if (NAME.test(name)) return undefined;
  return `an artifact's name starts with a letter or digit and has letters, digits, dots, dashes and underscores, at most 100: not "${name}"`;
}

/** Undefined: the path stays within the artifact's folder, on any file system. */
export function artifactFileFault(path: string): string | undefined {
  const parts = path.split("/");
  const isBad = (part: string): boolean =>
    part === "" || part === "." || part === ".." || Buffer.byteLength(part) > 255;
  if (!parts.some(isBad) && !/[\u0000-\u001f\u007f\\]/.test(path) && Buffer.byteLength(path) <= 512) return undefined;
  const rule = 'must be relative, with "/" between names, without "." or "..", backslashes or control characters';
  return `a file's path ${rule}, at most 512 bytes: not ${JSON.stringify(path)}`;
}

/** Where a name's record is, on the data volume or in the data directory: {"digest", "createdAt"}. */
export function artifactNameFile(dataPath: string, kind: ArtifactKindName, name: string): string {
  return join(dataPath, "artifacts/names", kind, `${name}.json`);
}

/** Where an artifact's files are there. */
export function artifactFolder(dataPath: string, digest: string): string {
  return join(dataPath, "artifacts/sha256", digest, "files");
}

/** What an artifact is known by: its files' paths, sizes and digests. */
export function artifactDigest(
  files: readonly { readonly path: string; readonly size: number | bigint; readonly sha256: string }[],
): string {
  const ordered = files.toSorted((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const hash = createHash("sha256");
  for (const { path, size, sha256 } of ordered) hash.update(`${sha256} ${size} ${path}\n`);
  return hash.digest("hex");
}

/** The artifact whose folder, or what below it, a path names, in whoever's data folder. Undefined: none. */
export function artifactOfPath(
  path: string,
): (Pick<ArtifactReference, "file"> & { readonly digest: string }) | undefined {
  const [, digest, file] = PLACE.exec(path) ?? [];
  return digest === undefined ? undefined : { digest, ...(file && { file }) };
}

/** Every text of a JSON value that names an artifact, replaced by what `change` answers. */
export function mapArtifacts<T>(value: T, change: (text: string, path: string) => string, path = ""): T {
  if (isArtifact(value)) return change(value, path) as T;
  if (Array.isArray(value)) return value.map((one, i) => mapArtifacts<unknown>(one, change, `${path}[${i}]`)) as T;
  if (typeof value !== "object" || value === null) return value;
  const below = (key: string): string => (path === "" ? key : `${path}.${key}`);
  const entries = Object.entries(value).map(([key, one]) => [key, mapArtifacts<unknown>(one, change, below(key))]);
  return Object.fromEntries(entries) as T;
}

function invalid(message: string): WhetstoneError {
  return new WhetstoneError("INVALID_ARGUMENT", message);
}
