// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

const digest = z.string().regex(/^[0-9a-f]{64}$/u);
const relative = z.string().regex(/^(?!\/)(?!.*\.\.)[\w./ -]{1,300}$/u);

/** A file of the Python package index, or of npm. */
const PackageFileSchema = z.strictObject({
  /** "semver==3.1.1"; of npm "qs@6.17.1" */
  requirement: z.string().regex(/^[\w.-]+(==|@)[\w.+-]+$/u),
  sha256: digest,
});
export type PackageFile = z.output<typeof PackageFileSchema>;

/** How a library's tests are run. All paths are relative to its repository. */
const SuiteSchema = z.strictObject({
  /** "python": pytest. "javascript": tape, by Node. Default: "python". */
  language: z.enum(["python", "javascript"]).optional(),
  /** Folders that Python imports from; "." is the repository itself. Node needs none. */
  paths: z.array(relative),
  /** The library's own code: where bugs are planted, and all that a repair may change. */
  packages: z.array(relative).min(1),
  /** Files and folders of tests. */
  tests: z.array(relative).min(1),
});
export type Suite = z.output<typeof SuiteSchema>;

/** A library to make tasks from, pinned. */
export const LibraryPinSchema = z.strictObject({
  name: z.string().regex(/^[\w.-]+$/u),
  version: z.string().regex(/^[\w.+-]+$/u),
  sdist: PackageFileSchema,
  /** What its tests import beside it. */
  wheels: z.array(PackageFileSchema),
  suite: SuiteSchema,
  split: z.enum(["train", "heldout"]),
});
export type LibraryPin = z.output<typeof LibraryPinSchema>;

/** What is known of a library once its tests have been run: `library.json` beside its `state.tar`. */
export const LibraryRecordSchema = z.strictObject({
  ...LibraryPinSchema.shape,
  /** One sentence, of its metadata. */
  summary: z.string(),
  /** Ids of the tests that passed in every run of the library as it is. */
  stable: z.array(z.string()).min(1),
  /** How long all of them compute, seconds. */
  seconds: z.number().min(0),
});
export type LibraryRecord = z.output<typeof LibraryRecordSchema>;

export const RECORD_FILE = "library.json";
/** The folders below as an archive. */
export const STATE_FILE = "state.tar";

/** Where the library lies in a sandbox, below `/workspace`. */
export const REPO = "repo";
/** What its tests import. */
export const SITE = "site";
/** Our programs: never there where an agent is. */
export const TOOL = "tool";

export function folderNameOf({ name, version }: Pick<LibraryPin, "name" | "version">): string {
  return `${name}-${version}`;
}
