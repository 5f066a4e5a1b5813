// SPDX-License-Identifier: Apache-2.0
/** Installs Math-Verify, which the env-runner asks for jobs with `grader: math-verify`, in a folder of its own. */
import { renameSync, rmSync } from "node:fs";

import { CliError } from "../cli-error.ts";
import type { RunProgram } from "./python-setup.ts";

export interface MathVerifySetup {
  /** An interpreter with pip. */
  readonly python: string;
  readonly folder: string;
  /** Pinned with hashes. */
  readonly requirements: string;
}

/** Safe to call again: what is there is replaced when the new one is whole. @throws CliError PYTHON_SETUP */
export async function setupMathVerify({ python, folder, requirements }: MathVerifySetup, run: RunProgram) {
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  const what = ["--target", draft, "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", requirements];
  const args = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--root-user-action=ignore", ...what];
  if (!(await run(python, args, false)))
    throw new CliError(
      "PYTHON_SETUP",
      `${python} -m pip install -r ${requirements} failed; what it printed stands above`,
    );
  rmSync(folder, { recursive: true, force: true });
  renameSync(draft, folder);
}
