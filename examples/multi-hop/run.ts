// SPDX-License-Identifier: Apache-2.0
// Makes a corpus and questions, trains a random model twice, and says what it learned. `make multi-hop` runs it.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { formThenReward } from "../frozenlake/src/form-then-reward.ts";
import { whet } from "../frozenlake/src/platform.ts";

const startedAt = performance.now();
const data = resolve(".whetstone/multi-hop");
rmSync(data, { recursive: true, force: true });
whet("tasks", "make", "search", "--out", data, "--count", "2000", "--heldout", "200", "--hops", "2", "--seed", "1");
execFileSync(process.execPath, [join(import.meta.dirname, "tasks.ts"), data], { stdio: "inherit" });
const more = process.argv.slice(2);
await formThenReward({ name: "multi-hop", jobs: import.meta.dirname, data, spread: 0.1, more, startedAt });
