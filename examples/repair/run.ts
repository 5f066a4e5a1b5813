// SPDX-License-Identifier: Apache-2.0
// Makes tasks, trains a random model twice, and says what it learned. `make repair` runs it.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { formThenReward } from "../frozenlake/src/form-then-reward.ts";

/** Standard deviation of random weights. */
const spread = 0.02;
const startedAt = performance.now();
const data = resolve(".whetstone/repair");
rmSync(data, { recursive: true, force: true });
execFileSync("python", [join(import.meta.dirname, "tasks.py"), data], { stdio: "inherit" });
await formThenReward({
  name: "repair",
  jobs: import.meta.dirname,
  data,
  spread,
  more: process.argv.slice(2),
  startedAt,
});
