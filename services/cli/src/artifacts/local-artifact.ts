// SPDX-License-Identifier: Apache-2.0
/** Artifacts in a data directory, for a runtime that has not been started yet. */
import { existsSync, readFileSync } from "node:fs";

import { artifactFolder, artifactNameFile, isArtifact, parseArtifact } from "@whetstone/core";

import { badInput } from "../cli-error.ts";

/** The model folder that a text names: itself, or an artifact's. @param path  what the user called the setting */
export function localModel(model: string, dataRoot: string, path: string): string {
  if (!isArtifact(model)) return model;
  const { kind, name, digest = digestOf(artifactNameFile(dataRoot, kind, name)) } = parseArtifact(model);
  const folder = digest === undefined ? undefined : artifactFolder(dataRoot, digest);
  if (folder !== undefined && existsSync(folder)) return folder;
  const advice = "start a runtime with `whet up --model <folder>`, and push it there";
  throw badInput([{ path, reason: `${model} is not in ${dataRoot}: ${advice}` }]);
}

function digestOf(file: string): string | undefined {
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { digest: string }).digest : undefined;
}
