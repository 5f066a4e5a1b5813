// SPDX-License-Identifier: Apache-2.0
// The example of README's "On a cluster", as it stands there, for one step.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { runWhet } from "../support/whet.ts";
import { ROOT } from "./cluster.ts";
import { NAMESPACE } from "./whet.ts";

const LINE = /^ {4}npx whet (train examples\/frozenlake\/job\.yaml .*--context .*)$/m;

export function trainAsInReadme(): string {
  const written = LINE.exec(readFileSync(join(ROOT, "README.md"), "utf8"))?.[1];
  if (!written) throw new Error("README.md has no command that trains examples/frozenlake/job.yaml on a cluster");
  const args = written.split(/\s+/).map((arg) => (arg === "lab" ? NAMESPACE : arg));
  const { status, output } = runWhet(...args, "--set", "loop.steps=1");
  if (status !== 0) throw new Error(`whet ${args.join(" ")} ended with ${status}: ${output.slice(-2000)}`);
  return `whet ${written}`;
}
