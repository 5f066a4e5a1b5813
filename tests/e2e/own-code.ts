// SPDX-License-Identifier: Apache-2.0
// A user's own agent and environment, in TypeScript: they reach the cluster by digest, no image is built.
import { resolve } from "node:path";

import { ROOT } from "./cluster.ts";
import { ownCodeRan } from "./own-sandbox.ts";
import { MODEL } from "./training.ts";
import { whet } from "./whet.ts";

const FILE = resolve(ROOT, "tests/e2e/own-job.ts");
const TASKS = 8;
const ATTEMPTS = 2;

/** `whet train agent.ts`, two steps. */
export function trainOwnCode(name: string): string {
  const { status, output } = whet("train", FILE, "--set", `name=${name}`, "--set", "loop.steps=2", "--model", MODEL);
  if (status !== 0) throw new Error(`whet train ${FILE} ended with ${status}: ${output}`);
  return `examples/math/agent.ts, 2 steps, ${ownCodeRan}`;
}

/** `whet eval` of the same: every attempt must have been judged. */
export function evaluateOwnCode(): string {
  const wanted = ["--tasks", `1:${TASKS}`, "--attempts", String(ATTEMPTS)];
  const { status, json, output } = whet("eval", "--job", FILE, "--model", MODEL, ...wanted, "--json");
  if (status !== 0) throw new Error(`whet eval ended with ${status}: ${output}`);
  const { tasks, episodes, voided } = (json as { total: Record<string, number> }).total;
  if (tasks !== TASKS || episodes !== TASKS * ATTEMPTS || voided !== 0) throw new Error(`it judged ${output}`);
  return `${episodes} episodes of ${tasks} tasks`;
}
