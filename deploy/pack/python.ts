// SPDX-License-Identifier: Apache-2.0
/** The Python side of the command line's package: our packages, the generated contract, pinned requirements. */
import { copyFileSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./workspaces.ts";

/** Folders without what running has left in them. */
const isSource = (path: string): boolean => !/__pycache__|\.pyc$|\.pyi$|\.egg-info/.test(path);

/** What `python -m whetstone_env` imports, and Gymnasium, whose environments it serves as they are. */
const ENVIRONMENTS = ["grpcio", "grpcio-health-checking", "grpcio-reflection", "gymnasium", "numpy", "protobuf"];

export function copyPython(folder: string, part: "all" | "environments" = "all"): void {
  const trainer = join(ROOT, "python-trainer");
  for (const source of [join(trainer, "src"), join(ROOT, "proto/gen/python")]) {
    cpSync(source, folder, { recursive: true, filter: isSource });
  }
  const ofSomeJobs = ["math-verify-requirements.txt", "miniwob-requirements.txt"];
  if (part === "all") for (const name of ofSomeJobs) copyFileSync(join(trainer, name), join(folder, name));
  const read = (name: string): string => readFileSync(join(trainer, name), "utf8");
  writeFileSync(
    join(folder, "requirements.txt"),
    runtimeRequirements(
      part === "environments" ? ENVIRONMENTS.join("\n") : read("requirements.in"),
      read("requirements.txt"),
    ),
  );
}

/**
 * The pinned requirements without those of tests and checks. `wanted` lists what is needed directly, the latter below a
 * comment "# tests and checks"; `pinned` is pip-compile's output, whose "# via" comments say who needs what.
 * @throws Error when one that is wanted is not pinned.
 */
export function runtimeRequirements(wanted: string, pinned: string): string {
  const [runtime = ""] = wanted.split("# tests and checks");
  const direct = runtime
    .split("\n")
    .filter((line) => /^[a-z]/i.test(line))
    .map(requirementName);
  const blocks = new Map(pinned.split(/^(?=[a-z0-9])/im).map((block) => [requirementName(block), block]));
  const missing = direct.filter((name) => !blocks.has(name));
  if (missing.length > 0) throw new Error(`requirements.txt does not pin ${missing.join(", ")}: compile it again`);
  const kept = new Set(direct);
  for (let size = 0; size !== kept.size;) {
    size = kept.size;
    for (const [name, block] of blocks) if (neededBy(block).some((parent) => kept.has(parent))) kept.add(name);
  }
  return [...blocks]
    .filter(([name]) => kept.has(name))
    .map(([, block]) => block)
    .join("");
}

/** "    # via\n    #   aiohttp\n    #   yarl" → ["aiohttp", "yarl"]. */
function neededBy(block: string): string[] {
  const [, via = ""] = block.split("# via");
  return [...via.matchAll(/^\s*(?:#\s+)?([a-z0-9][\w.-]*)/gim)].map((match) => normalized(match[1] as string));
}

function requirementName(line: string): string {
  return normalized(/^[\w.-]+/.exec(line)?.[0] ?? "");
}

function normalized(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, "-");
}
