// SPDX-License-Identifier: Apache-2.0
/** Reads a Prometheus endpoint, as far as a measurement needs it. */

/** `name{labels}` → value. */
export type Samples = ReadonlyMap<string, number>;

export interface Histogram {
  readonly count: number;
  /** Upper bound in seconds and how many were at or below it, ascending. */
  readonly buckets: readonly (readonly [number, number])[];
}

export async function readMetrics(port: number): Promise<Samples> {
  return parseMetrics(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
}

export function parseMetrics(text: string): Samples {
  const samples = new Map<string, number>();
  for (const line of text.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (at > 0 && !line.startsWith("#")) samples.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return samples;
}

/** What was added between two readings. */
export function difference(after: Samples, before: Samples): Samples {
  return new Map([...after].map(([key, value]) => [key, value - (before.get(key) ?? 0)]));
}

/** Over all labels but the bounds. */
export function histogramOf(samples: Samples, name: string): Histogram {
  const buckets = new Map<number, number>();
  for (const [key, value] of samples) {
    if (!key.startsWith(`${name}_bucket{`)) continue;
    const bound = labelOf(key, "le");
    const at = bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound);
    buckets.set(at, (buckets.get(at) ?? 0) + value);
  }
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  return { count: sorted.at(-1)?.[1] ?? 0, buckets: sorted };
}

/** Interpolated within its bucket, as Prometheus does; seconds. */
export function quantile({ count, buckets }: Histogram, q: number): number {
  const rank = q * count;
  let [from, below] = [0, 0];
  for (const [to, atOrBelow] of buckets) {
    if (atOrBelow >= rank)
      return to === Number.POSITIVE_INFINITY
        ? from
        : from + ((to - from) * (rank - below)) / Math.max(1, atOrBelow - below);
    [from, below] = [to, atOrBelow];
  }
  return from;
}

/** Calls to the API server by verb and kind, those that happened. */
export function requestsOf(samples: Samples): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [key, value] of samples) {
    if (!key.startsWith("whetstone_kube_requests_total{") || value === 0) continue;
    const name = `${labelOf(key, "verb")} ${labelOf(key, "kind")}`;
    counts[name] = (counts[name] ?? 0) + value;
  }
  return counts;
}

/** Lists by reflectors, by kind. */
export function lists(samples: Samples): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [key, value] of samples) {
    if (!key.startsWith("whetstone_kube_relists_total{") || value === 0) continue;
    const kind = labelOf(key, "kind");
    counts[kind] = (counts[kind] ?? 0) + value;
  }
  return counts;
}

function labelOf(key: string, label: string): string {
  return new RegExp(`[{,]${label}="([^"]*)"`).exec(key)?.[1] ?? "";
}
