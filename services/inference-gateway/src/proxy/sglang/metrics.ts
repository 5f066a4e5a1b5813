// SPDX-License-Identifier: Apache-2.0
/** vLLM's names of what SGLang counts, and of what only its proxy knows. */

interface Counted {
  readonly model: string;
  /** Requests that SGLang has, and that wait for the end of a pause. */
  readonly running: number;
  readonly held: number;
  /** Answers that ended, by reason. */
  readonly ended: ReadonlyMap<string, number>;
}

/** SGLang's names; a release has one of those of a line, or none. */
const COUNTERS: Readonly<Record<string, readonly string[]>> = {
  prompt_tokens_total: ["sglang:prompt_tokens_total"],
  prefix_cache_queries_total: ["sglang:prompt_tokens_total"],
  prefix_cache_hits_total: ["sglang:cached_tokens_total"],
  generation_tokens_total: ["sglang:generation_tokens_total"],
  num_preemptions_total: ["sglang:num_retracted_requests_total", "sglang:num_retractions_sum"],
};
const REASONS = ["stop", "length", "abort"];

/**
 * SGLang sets its gauges of requests every so many steps, and not when the last one has ended, so they are the proxy's, through
 * which all requests come; only how many of them queue within SGLang is its own.
 */
export function vllmMetrics(text: string, { model, running, held, ended }: Counted): string {
  const queued = Math.min(running, sumOf(text, "sglang:num_queue_reqs"));
  const label = `model_name=${JSON.stringify(model)}`;
  const lines = [
    ...metric("gauge", "num_requests_running", [[label, running - queued]]),
    ...metric("gauge", "num_requests_waiting", [[label, held + queued]]),
    ...metric("gauge", "kv_cache_usage_perc", [[label, sumOf(text, "sglang:token_usage", Math.max)]]),
    ...Object.entries(COUNTERS).flatMap(([name, theirs]) =>
      metric("counter", name, [[label, Math.max(...theirs.map((one) => sumOf(text, one)))]]),
    ),
    ...metric(
      "counter",
      "request_success_total",
      [...new Set([...REASONS, ...ended.keys()])].map((reason) => [
        `finished_reason="${reason}",${label}`,
        ended.get(reason) ?? 0,
      ]),
    ),
  ];
  return lines.join("\n") + "\n";
}

function metric(type: string, name: string, samples: readonly (readonly [string, number])[]): string[] {
  return [`# TYPE vllm:${name} ${type}`, ...samples.map(([labels, value]) => `vllm:${name}{${labels}} ${value}`)];
}

/** Over its labels, such as data-parallel ranks. 0 where there is none. */
function sumOf(text: string, name: string, join: (a: number, b: number) => number = (a, b) => a + b): number {
  let all = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith(name) || !/^[{ ]/.test(line.slice(name.length))) continue;
    const value = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (Number.isFinite(value)) all = join(all, value);
  }
  return all;
}
