// SPDX-License-Identifier: Apache-2.0
/** `whet setup`: Python, PyTorch and nats-server for the local runtime, in its data directory. */
import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

import { CliError } from "../cli-error.ts";
import { INSTALLATION, dataDirectory, dataPaths } from "../runtime/layout.ts";
import { setupPackages } from "../runtime/packages-setup.ts";
import type { RunProgram } from "../runtime/python-setup.ts";
import { setupPython } from "../runtime/python-setup.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export interface SetupFlags extends CommonOptions {
  readonly python?: string;
  readonly torchIndex?: string;
  readonly mathVerify?: boolean;
  readonly miniwob?: boolean;
}

export async function setup(flags: SetupFlags, context: CommandContext): Promise<void> {
  const { environment, terminal } = context;
  const paths = dataPaths(dataDirectory(flags.data, environment));
  const python = flags.python ?? environment["PYTHON"] ?? "python3";
  const alone = [
    { wanted: flags.mathVerify, name: "Math-Verify", key: "mathVerify", folder: paths.mathVerify },
    { wanted: flags.miniwob, name: "MiniWoB++", key: "miniwob", folder: paths.miniwob },
  ] as const;
  for (const part of alone.filter(({ wanted }) => wanted === true))
    await installAlone(flags, context, { ...part, python });
  if (alone.some(({ wanted }) => wanted === true)) return;
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

interface Alone {
  readonly name: string;
  readonly key: "mathVerify" | "miniwob";
  readonly python: string;
  readonly folder: string;
}

async function installAlone(
  { json = false }: SetupFlags,
  { terminal, signal }: CommandContext,
  { name, key, python, folder }: Alone,
): Promise<void> {
  const requirements = INSTALLATION[`${key}Requirements`];
  await setupPackages({ python, folder, requirements }, programs(signal, json));
  if (json) terminal.json({ [key]: folder });
  else terminal.line(`${name} is in ${folder}; a runtime that is started now has it`);
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
