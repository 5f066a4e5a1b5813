// SPDX-License-Identifier: Apache-2.0
// Loaded into a gateway by `node --expose-gc --import`: on SIGUSR2 it collects all garbage and writes what is left.
process.on("SIGUSR2", () => {
  for (let pass = 0; pass < 3; pass++) globalThis.gc?.();
  process.stderr.write(`\nheap-probe ${process.memoryUsage().heapUsed}\n`);
});
