// SPDX-License-Identifier: Apache-2.0
/** What the supervisor must know of a service. */
import type { HealthCheck } from "./health.ts";

export interface ServiceSpec {
  /** Unique; names the log file too. */
  readonly name: string;
  /** Services that must be ready before this one starts. */
  readonly needs: readonly string[];
  /** Program and arguments. */
  readonly command: readonly [string, ...string[]];
  /** Its whole environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** By purpose: {"grpc": 4001, "http": 4002}. Fixed while the runtime lives, so that a restart is found again. */
  readonly ports: Readonly<Record<string, number>>;
  readonly health: HealthCheck;
  /** Work before the first start, e.g. making the model. A failure ends the start; the signal, its stop. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>;
}
