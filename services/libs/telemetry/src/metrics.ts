// SPDX-License-Identifier: Apache-2.0
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

export interface MetricOptions<L extends string> {
  /** Without the prefix: `episodes_total` becomes `whetstone_episodes_total`. */
  readonly name: string;
  readonly help: string;
  /** Closed sets only: never ids of objects. */
  readonly labels?: readonly L[];
}

export interface HistogramOptions<L extends string> extends MetricOptions<L> {
  /** Upper bounds; default: 1 ms to 300 s. */
  readonly buckets?: readonly number[];
}

export interface GaugeOptions<L extends string> extends MetricOptions<L> {
  /** Read at each scrape, for a gauge without labels. */
  readonly read?: () => number;
}

export interface Metrics {
  readonly registry: Registry;
  /** The same name twice gives the same metric. */
  counter<L extends string = never>(options: MetricOptions<L>): Counter<L>;
  gauge<L extends string = never>(options: GaugeOptions<L>): Gauge<L>;
  histogram<L extends string = never>(options: HistogramOptions<L>): Histogram<L>;
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
  const once = <T>(name: string, make: (fullName: string) => T): T => {
    const fullName = PREFIX + name;
    return (registry.getSingleMetric(fullName) as T | undefined) ?? make(fullName);
  };
  const base = <L extends string>({ help, labels = [] }: MetricOptions<L>) => ({
    help,
    labelNames: [...labels],
    registers: [registry],
  });
  return {
    registry,
    counter: (o) => once(o.name, (name) => new Counter({ name, ...base(o) })),
    gauge: (o) => once(o.name, (name) => new Gauge({ name, ...base(o), ...collector(o.read) })),
    histogram: (o) => once(o.name, (name) => new Histogram({ name, ...base(o), buckets: [...(o.buckets ?? SECONDS)] })),
    render: () => registry.metrics(),
  };
}

function collector(read: (() => number) | undefined): { collect?: (this: { set(value: number): void }) => void } {
  if (read === undefined) return {};
  return {
    collect() {
      this.set(read());
    },
  };
}
