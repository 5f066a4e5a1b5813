// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { isDemonstrated } from "../compiled-job.ts";
import { type EngineDeps, traitsOfEngines } from "./engine-traits.ts";
import type { Violation } from "./violation.ts";

/**
 * Whether the engines name the tokens that the job's truncated sampling draws from. Without them no step can compute the
 * probability of what was drawn, and every episode would be voided (docs/algorithms.md, "Truncated sampling").
 */
export async function checkTruncatedSampling(spec: JobSpec, deps: EngineDeps): Promise<Violation[]> {
  const asked = truncationOf(spec);
  if (!spec.loop?.steps || isDemonstrated(spec) || asked.length === 0) return [];
  const found = new Map<string, Violation>();
  for (const [id, { namesSupport }] of await traitsOfEngines(deps))
    for (const { field, parameter } of asked) {
      if (namesSupport?.includes(parameter) ?? true) continue; // What an engine does not say, its first episodes will.
      const path = `sampling.${field}`;
      const reason = `engine ${id} does not name the tokens that ${parameter} leaves to draw from, so that nothing it samples could be trained: leave ${field} out, or use engines of profile pytorch`;
      if (!found.has(path)) found.set(path, { path, reason, curable: true });
    }
  return [...found.values()];
}

/** What of the job's sampling leaves tokens out, by its field and by the parameter that engines know. */
function truncationOf({ sampling }: JobSpec): { readonly field: string; readonly parameter: string }[] {
  const { topP = 1, topK = 0, minP = 0 } = sampling ?? {};
  return [
    ...(topP < 1 ? [{ field: "topP", parameter: "top_p" }] : []),
    ...(topK > 0 ? [{ field: "topK", parameter: "top_k" }] : []),
    ...(minP > 0 ? [{ field: "minP", parameter: "min_p" }] : []),
  ];
}
