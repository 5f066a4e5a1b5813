// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { parseEngineMetrics } from "./engine-metrics.ts";

it("adds requests up over ranks and takes the fullest cache", () => {
  const text = [
    "# HELP vllm:num_requests_running Number of requests.",
    'vllm:num_requests_running{engine="0",model_name="a {b} c"} 3.0',
    'vllm:num_requests_running{engine="1",model_name="a"} 4.0',
    'vllm:num_requests_waiting{engine="0"} 1e2',
    'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 100.0',
    'vllm:kv_cache_usage_perc{engine="0"} 0.25',
    'vllm:kv_cache_usage_perc{engine="1"} 0.5',
  ].join("\n");
  expect(parseEngineMetrics(text)).toEqual({ running: 7, waiting: 100, kvUse: 0.5 });
});

it("knows nothing of an engine with other names", () => {
  expect(parseEngineMetrics("sglang:num_running_reqs 3\n")).toBeUndefined();
});
