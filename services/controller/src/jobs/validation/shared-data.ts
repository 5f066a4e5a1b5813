// SPDX-License-Identifier: Apache-2.0
import { isArtifact } from "@whetstone/core";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { modelPaths } from "./model-paths.ts";
import type { Violation } from "./violation.ts";

const NONE = "controller, trainer and engines share no volume here";

/** What a job may not ask for where nobody but the controller sees its data folder. @param spec  as it was submitted */
export function checkOwnData(spec: JobSpec): Violation[] {
  const found: Violation[] = [];
  for (const [path, value] of Object.entries(modelPaths(spec)))
    if (value && !isArtifact(value))
      found.push({
        path,
        reason: `is the path of a folder, and ${NONE}: push it (\`whet models push NAME DIR\`) and name artifact://models/NAME`,
      });
  if (!spec.loop?.steps) return found;
  if (spec.weights?.transport?.kind.case !== "objectStore")
    found.push({
      path: "weights.transport",
      reason: `must be objectStore: ${NONE}, and the trainer's disk goes with its pod`,
    });
  return found;
}
