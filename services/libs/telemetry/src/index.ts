// SPDX-License-Identifier: Apache-2.0
export {
  createLogger,
  type LogFields,
  type Logger,
  type LoggerOptions,
  type LogLevel,
  silentLogger,
} from "./logger.ts";
export { createMetrics, type Metrics } from "./metrics.ts";
export { serveMetrics } from "./serve-metrics.ts";
export { runService } from "./run-service.ts";
