// SPDX-License-Identifier: Apache-2.0
/** Installs Python packages that the env-runner needs for some jobs only (Math-Verify, MiniWoB++), each in a folder of its own. */
import { renameSync, rmSync } from "node:fs";

import { CliError } from "../cli-error.ts";
import type { RunProgram } from "./python-setup.ts";

export interface PackagesSetup {
  /** An interpreter with pip. */
  readonly python: string;
  readonly folder: string;
  /** Pinned with hashes. */
  readonly requirements: string;
}

/** Safe to call again: what is there is replaced when the new one is whole. @throws CliError PYTHON_SETUP */
export async function setupPackages({ python, folder, requirements }: PackagesSetup, run: RunProgram) {
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
