// SPDX-License-Identifier: Apache-2.0
// Makes tasks, trains a random model twice, and says what it learned. `make mcp-tools` runs it.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { formThenReward } from "../frozenlake/src/form-then-reward.ts";

const startedAt = performance.now();
const data = resolve(".whetstone/mcp-tools");
rmSync(data, { recursive: true, force: true });
execFileSync(process.execPath, [join(import.meta.dirname, "tasks.ts"), data], { stdio: "inherit" });
// The official servers are among what this repository's tests install.
process.env["WHETSTONE_MCP_SERVERS_PATH"] ??= resolve("node_modules");
// On a few cores more servers at once only wait for each other.
process.env["WHETSTONE_MAX_EPISODES"] ??= "6";
await formThenReward({
  name: "mcp-tools",
  jobs: import.meta.dirname,
  data,
  spread: 0.1,
  more: process.argv.slice(2),
  startedAt,
});
