// SPDX-License-Identifier: Apache-2.0
/** A job's kind of environment, and the pools that serve it. */
import { DEFAULT_POOL } from "@whetstone/messaging";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { Host } from "../../pools/environment-hosts.ts";
import type { Rehearsal } from "./environment-rehearsal.ts";
import type { Violation } from "./validate-job.ts";

export const KIND = "environment.kind";

/** What the pool's owner does not let jobs name there. A job's own code brings its kinds along. */
export function notOfThePool(
  { spec, module }: Pick<Rehearsal, "spec" | "module">,
  kinds: Host["kinds"],
): Violation[] | undefined {
  const kind = spec.environment?.kind ?? "";
  if (kinds === undefined || module !== undefined || kinds.includes(kind)) return undefined;
  const pool = spec.environment?.pool ?? DEFAULT_POOL;
  const reason = `pool "${pool}" serves ${kinds.join(", ") || "nothing"}, not "${kind}"`;
  return [{ path: KIND, reason, curable: true }];
}

/** What to do about a kind that the job's pool does not serve. */
export async function whoServes({ environment }: JobSpec, servedBy: Host["servedBy"]): Promise<string> {
  const kind = environment?.kind ?? "";
  const pools = (await servedBy?.(kind)) ?? [];
  const [first] = pools;
  if (first !== undefined) return `pool "${pools.join('", "')}" serves it: set environment.pool to "${first}"`;
  const name = kind.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return (
    "bring it in the job's module, or start an env-runner that serves it (docs/python-environments.md): " +
    `on Kubernetes an EnvironmentPool such as "${name}" with spec.kinds ["${kind}"] (docs/environment-pools.md)`
  );
}
