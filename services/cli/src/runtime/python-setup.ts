// SPDX-License-Identifier: Apache-2.0
/** Makes the virtual environment of the Python side: PyTorch, then everything else pinned with hashes. */
import { existsSync } from "node:fs";
import { join } from "node:path";

import { CliError } from "../cli-error.ts";

export const TORCH = "torch==2.13.0";
/** PyTorch's own builds without CUDA: a tenth of the default's size. */
const CPU_INDEX = "https://download.pytorch.org/whl/cpu";

export interface PythonSetup {
  /** Interpreter to build it with, 3.11 or newer. */
  readonly python: string;
  /** Folder of the virtual environment. */
  readonly folder: string;
  readonly requirements: string;
  /** A package index for PyTorch. Absent: its CPU builds if there is no GPU and they answer, else pip's default. */
  readonly torchIndex: string | undefined;
  /** Has an NVIDIA driver: the default build of PyTorch is wanted. */
  readonly hasGpu: boolean;
}

/** Runs a program to its end; true: it exited with 0. `quiet`: nobody sees what it prints. */
export type RunProgram = (program: string, args: readonly string[], quiet: boolean) => Promise<boolean>;

/** Safe to call again: what is there is kept. Throws CliError PYTHON_SETUP saying what is missing. */
export async function setupPython(setup: PythonSetup, run: RunProgram, say: (line: string) => void): Promise<void> {
  const own = join(setup.folder, "bin", "python");
  const pip = [...PIP, "install", "-q", "--disable-pip-version-check"];
  // pip comes last: an environment whose making was interrupted lacks it.
  if (!existsSync(join(setup.folder, "bin", "pip"))) {
    say(`making ${setup.folder}`);
    await makeEnvironment(setup, run);
  }
  if (!(await hasTorch(own, run))) {
    say("installing PyTorch (this takes a minute or two)");
    const index = setup.torchIndex ?? (await defaultIndex(setup, own, run));
    await must(
      run(own, [...pip, ...(index === undefined ? [] : ["--index-url", index]), TORCH], false),
      `pip install ${TORCH}`,
    );
  }
  say("installing Python packages");
  const pinned = ["--require-hashes", "--no-deps", "-r", setup.requirements];
  await must(run(own, [...pip, ...pinned], false), `pip install -r ${setup.requirements}`);
}

const PIP = ["-m", "pip"] as const;

async function makeEnvironment({ python, folder }: PythonSetup, run: RunProgram): Promise<void> {
  const isNew = await run(python, ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"], true);
  if (!isNew) throw failed(`${python} is not Python 3.11 or newer: name one with --python`);
  const hasVenv = await run(python, ["-c", "import venv, ensurepip"], true);
  if (!hasVenv) throw failed("Python's venv module is missing: install it (Debian: apt-get install python3-venv)");
  // A PyTorch that is there already is not downloaded again.
  const site = (await hasTorch(python, run)) ? ["--system-site-packages"] : [];
  await must(run(python, ["-m", "venv", ...site, folder], false), `${python} -m venv`);
}

function hasTorch(python: string, run: RunProgram): Promise<boolean> {
  return run(python, ["-c", "import torch, sys; sys.exit(not torch.__version__.startswith('2.13.'))"], true);
}

async function defaultIndex({ hasGpu }: PythonSetup, python: string, run: RunProgram): Promise<string | undefined> {
  if (hasGpu) return undefined;
  const probe = `import urllib.request as u; u.urlopen('${CPU_INDEX}/torch/', timeout=5)`;
  return (await run(python, ["-c", probe], true)) ? CPU_INDEX : undefined;
}

async function must(running: Promise<boolean>, what: string): Promise<void> {
  if (!(await running)) throw failed(`${what} failed; what it printed stands above`);
}

function failed(message: string): CliError {
  return new CliError("PYTHON_SETUP", message);
}
