// SPDX-License-Identifier: Apache-2.0
// Loaded before a program whose stalls are measured: on SIGUSR2 prints, since the last time, the most CPU milliseconds that its
// main thread used between two turns of the event loop. Other processes on a busy machine do not lengthen that, as they do a stall.
let longestMs = 0;
let before = process.threadCpuUsage();
setInterval(() => {
  const { user, system } = process.threadCpuUsage(before);
  longestMs = Math.max(longestMs, (user + system) / 1000);
  before = process.threadCpuUsage();
}, 1).unref();
process.on("SIGUSR2", () => {
  process.stdout.write(`busy ${longestMs}\n`);
  longestMs = 0;
});
