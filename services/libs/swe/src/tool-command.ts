// SPDX-License-Identifier: Apache-2.0
import type { SandboxLimits } from "@whetstone/sandbox";

/** A program of `whetstone_tasks` in a sandbox. Python imports nothing from where it was started, or from a user's folder. */
export function toolCommand(program: "grading" | "planting"): string[] {
  const paths = `import sys; sys.path[:0] = ["/workspace/tool", "/workspace/site"]`;
  return ["python3", "-s", "-P", "-c", `${paths}; from whetstone_tasks import ${program}; ${program}.main()`];
}

/** With one order of sets for all runs, and compiled code kept: tests are imported again and again. */
export const TOOL_ENVIRONMENT = {
  HOME: "/tmp",
  PYTHONHASHSEED: "0",
  PYTHONDONTWRITEBYTECODE: "",
  PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1",
} as const;

/** Of sandboxes where tests run. */
export const GRADER_LIMITS: Partial<SandboxLimits> = { memoryMiB: 1024, diskMiB: 256, processes: 64 };
