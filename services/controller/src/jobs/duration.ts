// SPDX-License-Identifier: Apache-2.0
import { type Duration, durationFromMs } from "@bufbuild/protobuf/wkt";

export function durationMs(duration: Duration): number {
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

/** From measured, fractional milliseconds; protobuf's own helper takes whole ones only. */
export function durationOf(ms: number): Duration {
  return durationFromMs(Math.round(ms));
}
