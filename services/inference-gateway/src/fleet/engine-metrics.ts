// SPDX-License-Identifier: Apache-2.0

/** What an engine says about its load. */
export interface EngineLoad {
  /** Requests in the running batch. */
  readonly running: number;
  /** Requests that wait to be admitted to it. */
  readonly waiting: number;
  /** Share of the blocks of keys and values in use, [0, 1]. */
  readonly kvUse: number;
}

const SAMPLE = /^vllm:(num_requests_running|num_requests_waiting|kv_cache_usage_perc)(?:\{[^\n]*\})? (\S+)/gm;

/** Reads vLLM's names, which the embedded engine shares, from Prometheus text; undefined: they are not there. */
export function parseEngineMetrics(text: string): EngineLoad | undefined {
  const found = new Map<string, number[]>();
  for (const [, name = "", value] of text.matchAll(SAMPLE)) {
    const values = found.get(name) ?? [];
    found.set(name, [...values, Number(value)]);
  }
  const running = found.get("num_requests_running");
  const waiting = found.get("num_requests_waiting");
  if (running === undefined || waiting === undefined) return undefined;
  // One sample for each data-parallel rank: requests add up, the fullest cache counts.
  return {
    running: sum(running),
    waiting: sum(waiting),
    kvUse: Math.max(0, ...(found.get("kv_cache_usage_perc") ?? [])),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
