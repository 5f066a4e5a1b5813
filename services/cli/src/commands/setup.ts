// SPDX-License-Identifier: Apache-2.0
/** `whet setup`: Python, PyTorch and nats-server for the local runtime, in its data directory. */
import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

import { CliError } from "../cli-error.ts";
import { setupMathVerify } from "../runtime/math-verify-setup.ts";
import { INSTALLATION, dataDirectory, dataPaths } from "../runtime/layout.ts";
import type { RunProgram } from "../runtime/python-setup.ts";
import { setupPython } from "../runtime/python-setup.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export interface SetupFlags extends CommonOptions {
  readonly python?: string;
  readonly torchIndex?: string;
  readonly mathVerify?: boolean;
}

export async function setup(flags: SetupFlags, context: CommandContext): Promise<void> {
  const { environment, terminal } = context;
  const paths = dataPaths(dataDirectory(flags.data, environment));
  const python = flags.python ?? environment["PYTHON"] ?? "python3";
  if (flags.mathVerify === true) {
    await mathVerify(flags, context, { python, folder: paths.mathVerify });
    return;
  }
  const folder = paths.python;
  const plan = {
    python,
    folder,
    requirements: INSTALLATION.requirements,
    torchIndex: flags.torchIndex ?? (environment["TORCH_INDEX"] || undefined),
    hasGpu: isOnPath("nvidia-smi", environment),
  };
  const json = flags.json === true;
  await setupPython(plan, programs(context.signal, json), (line) => (json ? undefined : terminal.line(line)));
  if (json) terminal.json({ python: join(folder, "bin", "python") });
  else terminal.line(`the Python side is in ${folder}; \`whet doctor\` checks the rest`);
}

async function mathVerify(
  { json = false }: SetupFlags,
  { terminal, signal }: CommandContext,
  where: { readonly python: string; readonly folder: string },
): Promise<void> {
  await setupMathVerify({ ...where, requirements: INSTALLATION.mathVerifyRequirements }, programs(signal, json));
  if (json) terminal.json({ mathVerify: where.folder });
  else terminal.line(`Math-Verify is in ${where.folder}; a runtime that is started now has it`);
}

/** What pip prints goes to stderr: stdout is the command's own. */
function programs(signal: AbortSignal, json: boolean): RunProgram {
  return (program, args, quiet) =>
    new Promise((resolve, reject) => {
      const output = quiet ? "ignore" : json ? "ignore" : 2;
      const child = spawn(program, [...args], { stdio: ["ignore", output, quiet ? "ignore" : 2], signal });
      child.once("error", (error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") resolve(false);
        else reject(signal.aborted ? new CliError("STOPPED", "stopped") : error);
      });
      child.once("exit", (code) => resolve(code === 0));
    });
}

function isOnPath(name: string, environment: NodeJS.ProcessEnv): boolean {
  return (environment["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return folder !== "";
    } catch {
      return false;
    }
  });
}
