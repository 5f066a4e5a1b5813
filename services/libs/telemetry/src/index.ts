// SPDX-License-Identifier: Apache-2.0
export {
  createLogger,
  type LogFields,
  type Logger,
  type LoggerOptions,
  type LogLevel,
  silentLogger,
} from "./logger.ts";
export {
  createMetrics,
  type GaugeOptions,
  type HistogramOptions,
  type MetricOptions,
  type Metrics,
  type MetricsOptions,
} from "./metrics.ts";
export { type MetricsServer, type MetricsServerOptions, serveMetrics } from "./serve-metrics.ts";
export { type StopOptions, stopOnSignal } from "./stop-on-signal.ts";
