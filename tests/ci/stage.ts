// SPDX-License-Identifier: Apache-2.0
// What a stage of CI is: what it runs, how long that takes, and what it is about.

interface Turn {
  readonly name: string;
  /** What it adds to a run on a warm machine with two cores. */
  readonly minutes: number;
  /** It runs when one of its tests, or a file at or below one of these has changed; "folder/*": a file in that folder. */
  readonly paths: readonly string[];
}

/** Parts and faults of the end-to-end tests, in the same installation as the core. */
export interface E2eStage extends Turn {
  readonly parts: readonly string[];
  /** A regular expression. */
  readonly faults?: string;
  /** What it needs beside those that `make images` builds. */
  readonly images?: readonly string[];
}

/** Test files of a vitest project, or of pytest; of pytest with verl and Ray, which such a stage installs first. */
export interface FileStage extends Turn {
  readonly project: "unit" | "kube" | "containers" | "pytest" | "pytest with verl";
  readonly tests: readonly string[];
  /** What it needs beside the cluster, made before its tests, and what takes it away after them. */
  readonly setup?: readonly (readonly [command: string, ...args: string[]])[];
  readonly cleanup?: readonly [command: string, ...args: string[]];
  /** Variables that make them do more than on their ordinary run. */
  readonly environment?: Readonly<Record<string, string>>;
}

export type Stage = E2eStage | FileStage;
