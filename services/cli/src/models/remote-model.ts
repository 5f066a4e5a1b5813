// SPDX-License-Identifier: Apache-2.0
/** Models that lie where a named controller runs. */
import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";

import { isArtifact } from "@whetstone/core";

/**
 * A controller that WHETSTONE_ENDPOINT names may run elsewhere, such as in a cluster: an absolute model.path that is not
 * on this machine is its to judge, and it does when the job is submitted; one in a cluster judges every path. `document`: a
 * job before paths are resolved; a relative path is beside the job's file, so here.
 */
export function isRemoteModel(document: Readonly<Record<string, unknown>>, environment: NodeJS.ProcessEnv): boolean {
  const path = (document["model"] as { path?: unknown } | undefined)?.path;
  if (environment["WHETSTONE_CONTEXT"] || isArtifact(path)) return true;
  return (
    Boolean(environment["WHETSTONE_ENDPOINT"]) && typeof path === "string" && isAbsolute(path) && !existsSync(path)
  );
}
