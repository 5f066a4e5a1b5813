// SPDX-License-Identifier: Apache-2.0
// Makes tasks, trains a random model twice, and says what it learned. `make clicks` runs it.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { formThenReward } from "../frozenlake/src/form-then-reward.ts";
import { whet } from "../frozenlake/src/platform.ts";

/** Standard deviation of random weights. */
const spread = 0.1;
const startedAt = performance.now();
const data = resolve(".whetstone/clicks");
rmSync(data, { recursive: true, force: true });
execFileSync(process.execPath, [join(import.meta.dirname, "tasks.ts"), data], { stdio: "inherit" });
// On a few cores more pages at once only wait for each other.
process.env["WHETSTONE_BROWSERS"] ??= "1";
process.env["WHETSTONE_BROWSER_CONTEXTS"] ??= "8";
whet("setup", "--miniwob", "--data", join(data, "run"));
await formThenReward({
  name: "clicks",
  jobs: import.meta.dirname,
  data,
  spread,
  more: process.argv.slice(2),
  startedAt,
});
