// SPDX-License-Identifier: Apache-2.0
/** From a parsed job file to a JobSpec. No I/O: reading and YAML are the adapter's. */
import { isAbsolute, resolve } from "node:path";

import { isArtifact } from "@whetstone/core";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { readSettings } from "@whetstone/sdk/job-settings";

import { badInput } from "../cli-error.ts";

/**
 * Checks a document against the JobSpec and makes the message. Relative paths in it are meant from `folder`, the job
 * file's own, wherever the command was called. Throws bad input with every violation; what settings mean together is
 * the controller's to judge.
 */
export function readJobSpec(document: unknown, folder: string): JobSpec {
  const { json, violations } = readSettings("JobSpec", document);
  if (violations.length > 0) throw badInput(violations);
  const spec = fromJson(JobSpecSchema, json as JsonValue);
  resolvePaths(spec, folder);
  return spec;
}

function resolvePaths(spec: JobSpec, folder: string): void {
  const absolute = (path: string): string =>
    path === "" || isAbsolute(path) || isArtifact(path) ? path : resolve(folder, path);
  if (spec.model) spec.model.path = absolute(spec.model.path);
  const algorithm = spec.algorithm?.kind;
  if (algorithm?.case === "policyGradient")
    for (const part of [algorithm.value.kl, algorithm.value.critic]) if (part) part.model = absolute(part.model);
  for (const dataset of [spec.train, spec.validation?.dataset]) {
    if (dataset?.source.case === "jsonl") dataset.source.value = absolute(dataset.source.value);
  }
}
