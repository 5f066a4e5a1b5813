// SPDX-License-Identifier: Apache-2.0
/** T30 and T36: what an engine counts, and the label that it sends with each answer. */
import { Skipped } from "../run-checks.ts";
import { type Engine, must, waitUntil } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";
import { metricSum, samplesOf } from "./metric-text.ts";

const GAUGES = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"];
const COUNTERS = [
  "prefix_cache_queries_total",
  "prefix_cache_hits_total",
  "generation_tokens_total",
  "prompt_tokens_total",
  "request_success_total",
  "num_preemptions_total",
];
const ANSWERED = 4;

const counts: EngineCheck = async (engine) => {
  await engine.settle();
  const before = await textOf(engine);
  const absent = [...GAUGES, ...COUNTERS].filter((name) => metricSum(before, name) === undefined);
  must(absent.length === 0, `GET /metrics has no ${absent.map((name) => `vllm:${name}`).join(", ")}`);
  await engine.generate(engine.facts.prompt, { max_tokens: ANSWERED });
  let after = before;
  const grown = (name: string): number => (metricSum(after, name) ?? NaN) - (metricSum(before, name) ?? NaN);
  // An engine may count a moment after it has answered.
  const isCounted = async (): Promise<boolean> => {
    after = await textOf(engine);
    return grown("generation_tokens_total") >= ANSWERED && grown("request_success_total") >= 1;
  };
  await waitUntil(isCounted, `vllm:generation_tokens_total or vllm:request_success_total is not counted`);
  const expected = { generation_tokens_total: ANSWERED, prompt_tokens_total: engine.facts.prompt.length };
  for (const [name, count] of Object.entries(expected))
    must(grown(name) === count, `vllm:${name} grew by ${grown(name)} with a request of ${count}`);
  const shrunk = COUNTERS.find((name) => !(grown(name) >= 0));
  must(shrunk === undefined, `vllm:${shrunk} became less`);
  const reasons = samplesOf(after, "request_success_total").filter((line) => line.includes('finished_reason="length"'));
  must(reasons.length > 0, 'vllm:request_success_total has no label finished_reason="length"');
  return `all ${GAUGES.length + COUNTERS.length} names; a request of ${ANSWERED} tokens is counted`;
};

async function textOf(engine: Engine): Promise<string> {
  return String((await engine.api.get("/metrics")).body);
}

const sendsItsLabel: EngineCheck = async (engine) => {
  const { label: sent } = await engine.ok("/inference/v1/generate", engine.body(engine.facts.prompt));
  if (sent === undefined) throw new Skipped("it sends no X-Weight-Version, which is advisory");
  const label = await engine.label();
  must(sent === label, `X-Weight-Version is ${sent} where the label is ${label}`);
  return `X-Weight-Version is the label, ${label}`;
};

export const METRICS: Readonly<Record<string, EngineCheck>> = {
  "T30 metrics": counts,
  "T36 label header": sendsItsLabel,
};
