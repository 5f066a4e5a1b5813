// SPDX-License-Identifier: Apache-2.0
import type { Sandbox, SandboxLimits } from "@whetstone/sandbox";
import { SITE, type Suite, TOOL } from "./library.ts";

/** A program of `whetstone_tasks` in a sandbox. Python imports nothing from where it was started, or from a user's folder. */
export function toolCommand(program: "grading" | "planting", { workspace }: Places): string[] {
  const paths = `import sys; sys.path[:0] = ["${workspace}/${TOOL}", "${workspace}/${SITE}"]`;
  return ["python3", "-s", "-P", "-c", `${paths}; from whetstone_tasks import ${program}; ${program}.main()`];
}

/** With one order of sets for all runs, and compiled code kept: tests are imported again and again. */
export function toolEnvironment({ workspace, temporary }: Places): Record<string, string> {
  return {
    HOME: temporary,
    WHETSTONE_WORKSPACE: workspace,
    PYTHONHASHSEED: "0",
    PYTHONDONTWRITEBYTECODE: "",
    PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1",
  };
}

type Places = Pick<Sandbox, "workspace" | "temporary">;

/** Of sandboxes where tests run. */
export function graderLimits({ language }: Pick<Suite, "language">): Partial<SandboxLimits> {
  // Where memory is counted as what is reserved, Node needs 1,536 MiB.
  return { memoryMiB: language === "javascript" ? 2048 : 1024, diskMiB: 256, processes: 64 };
}
