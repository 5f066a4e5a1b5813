// SPDX-License-Identifier: Apache-2.0
/** `python -m whetstone_models`: makes, imports and checks model folders. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { CliError, badInput } from "../cli-error.ts";
import { INSTALLATION, pythonEnvironment, pythonPath } from "../runtime/layout.ts";

/** What the tool says of a folder, e.g. {"parameters": 360000}. */
export type ModelSummary = Readonly<Record<string, unknown>>;

const TOOL_TIMEOUT_MS = 300_000;

/** Runs one command of the tool. Its refusals become bad input named `path.field`; `path` is what the user called it. */
export async function modelsTool(args: readonly string[], path: string, signal?: AbortSignal): Promise<ModelSummary> {
  const { code, stdout, stderr } = await runPython(["-m", "whetstone_models", ...args, "--json"], signal);
  if (code === 0) return JSON.parse(lastLine(stdout)) as ModelSummary;
  const refusal = code === 2 ? parseRefusal(stderr) : undefined;
  if (refusal) throw badInput([{ path, reason: `${refusal.field}: ${refusal.reason}` }], "BAD_MODEL");
  const reason = lastLine(stderr) || `python exited with ${code}`;
  throw new CliError("MODELS_TOOL", `the models tool failed: ${reason}. \`whet doctor\` checks the Python side.`);
}

/** Throws bad input when the folder cannot be trained. `path` names the setting it came from. */
export async function checkModel(directory: string, path: string, signal?: AbortSignal): Promise<ModelSummary> {
  if (!existsSync(directory)) throw badInput([{ path, reason: `${directory} does not exist` }], "BAD_MODEL");
  return modelsTool(["check", directory], path, signal);
}

/** Makes the random tiny model that a runtime starts with, unless it is there. */
export async function ensureDefaultModel(directory: string, signal?: AbortSignal): Promise<void> {
  if (existsSync(join(directory, "config.json"))) return;
  await modelsTool(["init", directory, "--preset", "tiny", "--seed", "0"], directory, signal);
}

interface PythonResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One Python command to its end, in the environment of the Python services. */
export function runPython(
  args: readonly string[],
  signal?: AbortSignal,
  timeout = TOOL_TIMEOUT_MS,
): Promise<PythonResult> {
  const env = { ...process.env, ...pythonEnvironment() };
  const options = { cwd: process.cwd(), env, timeout, ...(signal ? { signal } : {}) };
  return new Promise((resolve, reject) => {
    execFile(pythonPath(), [...args], options, (error, stdout, stderr) => {
      if (signal?.aborted) return reject(new CliError("STOPPED", "stopped"));
      if (error && typeof error.code === "string") return reject(pythonMissing(error));
      const code = typeof error?.code === "number" ? error.code : error ? 1 : 0;
      resolve({ code, stdout, stderr });
    });
  });
}

function pythonMissing(cause: unknown): CliError {
  const what = `cannot run ${pythonPath()}: ${INSTALLATION.setupAdvice}, or name a Python in WHETSTONE_PYTHON`;
  return new CliError("PYTHON_MISSING", what, { cause });
}

function parseRefusal(stderr: string): { field: string; reason: string } | undefined {
  try {
    return (JSON.parse(lastLine(stderr)) as { error?: { field: string; reason: string } }).error;
  } catch {
    return undefined;
  }
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
