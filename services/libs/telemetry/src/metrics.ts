// SPDX-License-Identifier: Apache-2.0
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/**
 * Names are without the prefix: `episodes_total` becomes `whetstone_episodes_total`. The same name twice gives the same metric.
 * Labels are closed sets: never ids of objects.
 */
export interface Metrics {
  readonly registry: Registry;
  counter<L extends string = never>(name: string, help: string, labels?: readonly L[]): Counter<L>;
  gauge<L extends string = never>(name: string, help: string, labels?: readonly L[]): Gauge<L>;
  /** A gauge that is read at each scrape. */
  gaugeOf(name: string, help: string, read: () => number): void;
  /** @param buckets  upper bounds; default: 1 ms to 300 s */
  histogram<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
    buckets?: readonly number[],
  ): Histogram<L>;
  /** Prometheus text format. */
  render(): Promise<string>;
}

const PREFIX = "whetstone_";
const SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;

export interface MetricsOptions {
  readonly component: string;
  /** Process, garbage collector and event loop lag; default true. Two registries in one process may both have them. */
  readonly processMetrics?: boolean;
}

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ component: options.component });
  if (options.processMetrics ?? true) collectDefaultMetrics({ register: registry, prefix: PREFIX });
  const once = <T>(name: string, make: (name: string) => T): T =>
    (registry.getSingleMetric(PREFIX + name) as T | undefined) ?? make(PREFIX + name);
  const base = <L extends string>(help: string, labels: readonly L[] = []) => ({
    help,
    labelNames: [...labels],
    registers: [registry],
  });
  return {
    registry,
    counter: (key, help, labels) => once(key, (name) => new Counter({ name, ...base(help, labels) })),
    gauge: (key, help, labels) => once(key, (name) => new Gauge({ name, ...base(help, labels) })),
    gaugeOf: (key, help, read) => {
      once(key, (name) => {
        const gauge: Gauge = new Gauge({ name, ...base(help), collect: () => gauge.set(read()) });
        return gauge;
      });
    },
    histogram: (key, help, labels, buckets = SECONDS) =>
      once(key, (name) => new Histogram({ name, ...base(help, labels), buckets: [...buckets] })),
    render: () => registry.metrics(),
  };
}
