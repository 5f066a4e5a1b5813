// SPDX-License-Identifier: Apache-2.0
/** Reads metrics from the text of `GET /metrics`, under vLLM's names. */

/** The sum over all labels; undefined: there is no such metric. */
export function metricSum(text: string, name: string): number | undefined {
  const values = samplesOf(text, name).map((line) => Number(/ (\S+)$/.exec(line)?.[1]));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** Lines of a metric, each with its labels and its value. */
export function samplesOf(text: string, name: string): string[] {
  const begin = `vllm:${name}`;
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line.startsWith(`${begin}{`) || line.startsWith(`${begin} `));
}
