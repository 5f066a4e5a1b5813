// SPDX-License-Identifier: Apache-2.0

interface WeightLoad {
  readonly path: string;
  /** The same call for another folder. */
  at(folder: string): string;
}

/**
 * vLLM's `/collective_rpc` runs any method of its workers: only the one that loads weights passes.
 * @returns the folder it names; undefined: it is another call.
 */
export function weightLoadOf(body: string): WeightLoad | undefined {
  try {
    const call = JSON.parse(body) as { method?: unknown; kwargs?: { weights_path?: unknown } };
    const path = call.kwargs?.weights_path;
    if (call.method !== "reload_weights" || typeof path !== "string") return undefined;
    return { path, at: (folder) => JSON.stringify({ ...call, kwargs: { ...call.kwargs, weights_path: folder } }) };
  } catch {
    return undefined;
  }
}
