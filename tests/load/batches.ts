// SPDX-License-Identifier: Apache-2.0
/**
 * What large batches cost the controller, and how long others wait for its answers meanwhile: one case after the other, each in
 * a new process, one JSON line a case. See batch-controller.ts for what is measured.
 *
 *   node tests/load/batches.ts --evaluations 10000,100000 --batches 4096x8
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    evaluations: { type: "string", default: "10000,100000,1000000" },
    batches: { type: "string", default: "4096x8" },
  },
});
/** What Node gives itself in the chart's container of 512 MiB. */
const HEAP = "--max-old-space-size=256";
const program = fileURLToPath(new URL("./batch-controller.ts", import.meta.url));
for (const size of [values.evaluations, values.batches].flatMap((sizes) => sizes.split(",")).filter(Boolean)) {
  const { status } = spawnSync(process.execPath, [HEAP, program, size], { stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
}
