// SPDX-License-Identifier: Apache-2.0
/** The env-runner of environments in Python: `--python-env`. */
import { existsSync } from "node:fs";
import { delimiter, resolve } from "node:path";

import type { Violation } from "../cli-error.ts";

/** The pool that jobs name for it. */
export const PYTHON_POOL = "python";

/**
 * What `python -m whetstone_env` is told: files by their whole path, since it does not run in the user's folder. Modules are
 * looked for in that folder too.
 */
export function readPythonEnvironments(targets: readonly string[], violations: Violation[]): string[] {
  return targets.map((target) => {
    const [file = "", name] = splitTarget(target);
    if (!isFile(file)) return target;
    if (!existsSync(file)) violations.push({ path: "--python-env", reason: `${file}: there is no such file` });
    return [resolve(file), ...(name === undefined ? [] : [name])].join(":");
  });
}

/** The interpreter that has the user's packages; the one of the other Python services, if none is named. */
export function environmentPython(environment: NodeJS.ProcessEnv): string | undefined {
  return environment["WHETSTONE_ENV_PYTHON"] || undefined;
}

/** Our packages, then the user's. */
export function environmentPath(sources: readonly string[], environment: NodeJS.ProcessEnv): string {
  return [...sources, process.cwd(), environment["PYTHONPATH"]].filter(Boolean).join(delimiter);
}

function splitTarget(target: string): string[] {
  const at = target.indexOf(":");
  return at < 0 ? [target] : [target.slice(0, at), target.slice(at + 1)];
}

function isFile(module: string): boolean {
  return module.endsWith(".py") || module.includes("/");
}
