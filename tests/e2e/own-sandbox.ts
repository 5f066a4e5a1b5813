// SPDX-License-Identifier: Apache-2.0
// Sandboxes for jobs' own code, where the test may bring the chart's seccomp profile to the only node: with E2E_NODE, and
// E2E_SECCOMP_FOLDER, the folder there in which the kubelet looks for profiles. Elsewhere own code asks for none.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CHART, command } from "./cluster.ts";

const NODE = process.env["E2E_NODE"];
const FOLDER = process.env["E2E_SECCOMP_FOLDER"];
const PROFILE = "whetstone-sandbox.json";

/** What `module.sandbox` of a job says. */
export function wantedSandbox(): { backend?: "none" } {
  return NODE && FOLDER ? {} : { backend: "none" };
}

/** Brings the profile to the node. @returns values of the chart by which orchestrators and env-runners have it */
export function makeSandboxes(): string[] {
  if (!NODE || !FOLDER) return [];
  const profile = readFileSync(join(CHART, "files", PROFILE), "utf8");
  command("sh", ["-c", `${NODE} sh -c 'mkdir -p "$0" && cat > "$0/${PROFILE}"' "$0"`, FOLDER], profile);
  return ["orchestrator", "envRunner", "envRunnerBrowser"].flatMap((part) => [
    `${part}.seccompProfile.type=Localhost`,
    `${part}.seccompProfile.localhostProfile=${PROFILE}`,
  ]);
}

/** For the report: where own code ran. */
export const ownCodeRan =
  NODE && FOLDER ? "in sandboxes" : "NOT in sandboxes: E2E_SECCOMP_FOLDER or E2E_NODE is not set";
