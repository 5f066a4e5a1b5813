// SPDX-License-Identifier: Apache-2.0
// Loaded into a service by `node --import`: on SIGUSR2 it writes how late its event loop was since the last one.
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 5;
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
delay.enable();
const lateMs = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
process.on("SIGUSR2", () => {
  const [p99, max] = [lateMs(delay.percentile(99)), lateMs(delay.max)];
  delay.reset();
  process.stderr.write(`\nloop-probe ${JSON.stringify({ p99, max })}\n`);
});
