// SPDX-License-Identifier: Apache-2.0
/** `whet up`: the local runtime, in front or detached. */
import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { badInput, CliError } from "../cli-error.ts";
import { formatSeconds } from "../terminal/format.ts";
import { INSTALLATION, dataDirectory, dataPaths } from "../runtime/layout.ts";
import { checkWritable, makeFolder } from "../runtime/make-folder.ts";
import { tailOf } from "../runtime/log-file.ts";
import { refuseIfRunning } from "../runtime/preflight.ts";
import type { RuntimeState } from "../runtime/state-file.ts";
import { portOf, readState } from "../runtime/state-file.ts";
import type { CommandContext } from "./context.ts";
import type { RuntimeFlags } from "./open-runtime.ts";
import { openRuntime } from "./open-runtime.ts";

export interface UpFlags extends RuntimeFlags {
  readonly detach?: boolean;
}

/** Runs until interrupted; with --detach, until everything is ready. */
export async function up(flags: UpFlags, context: CommandContext, argv: readonly string[]): Promise<void> {
  if (flags.detach === true) return upDetached(flags, context, argv);
  const begin = performance.now();
  const runtime = await openRuntime(flags, context);
  announce(runtime.state(), (performance.now() - begin) / 1000, flags, context);
  if (!context.signal.aborted) await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
  if (flags.json !== true) context.terminal.line("\nstopping …");
  await runtime.stop();
  if (flags.json !== true) context.terminal.line("stopped");
}

function announce(state: RuntimeState, seconds: number, flags: UpFlags, context: CommandContext): void {
  const { terminal } = context;
  if (flags.json === true) return terminal.json(state);
  const data = dataPaths(dataDirectory(flags.data, context.environment)).root;
  terminal.line(`\n${terminal.paint("bold", "whetstone is up")} after ${formatSeconds(seconds)}; data in ${data}`);
  terminal.line(`  controller  127.0.0.1:${portOf(state, "controller", "grpc") ?? "–"}  (gRPC, reflection on)`);
  terminal.line(`  gateway     http://127.0.0.1:${portOf(state, "gateway", "http") ?? "–"}/v1`);
  const stop = flags.detach === true ? "`whet down`" : "Ctrl-C";
  terminal.line(terminal.paint("dim", `  next: \`whet train job.yaml\`, \`whet status\`; ${stop} stops everything`));
}

const DETACHED_WITHIN_MS = 180_000;

/** Starts the same command in its own session, and waits until its state says ready. */
async function upDetached(flags: UpFlags, context: CommandContext, argv: readonly string[]): Promise<void> {
  const paths = dataPaths(dataDirectory(flags.data, context.environment));
  refuseIfRunning(paths);
  const refused = checkWritable(paths.root);
  if (refused.length > 0) throw badInput(refused, "CANNOT_START");
  makeFolder(paths.logs);
  const logPath = join(paths.logs, "supervisor.log");
  const log = openSync(logPath, "w");
  const begin = performance.now();
  const command = [INSTALLATION.main, ...argv.filter((arg) => arg !== "--detach" && arg !== "--json")];
  const child = spawn(process.execPath, command, { detached: true, stdio: ["ignore", log, log] });
  const exited = new Promise<number>((resolve) => child.once("exit", (code) => resolve(code ?? 1)));
  const over = new AbortController();
  const waiting = AbortSignal.any([context.signal, over.signal]);
  const state = await Promise.race([waitReady(paths.state, child.pid, waiting), exited]);
  over.abort(); // Else the command would stay until the runtime's time is up, though it has said why it failed.
  if (typeof state === "number" || state === undefined) throw detachedFailure(state, logPath, child.pid);
  child.unref();
  announce(state, (performance.now() - begin) / 1000, flags, context);
}

/** Undefined: not in time, or interrupted. */
async function waitReady(
  path: string,
  pid: number | undefined,
  signal: AbortSignal,
): Promise<RuntimeState | undefined> {
  const end = performance.now() + DETACHED_WITHIN_MS;
  while (performance.now() < end && !signal.aborted) {
    const state = readState(path);
    if (state?.phase === "ready" && state.pid === pid) return state;
    await delay(50);
  }
  return undefined;
}

/** The child's own words are the best there is: its exit code says whether the input was bad. */
function detachedFailure(code: number | undefined, logPath: string, pid: number | undefined): CliError {
  if (code === undefined && pid !== undefined) process.kill(pid, "SIGTERM");
  const words = tailOf(logPath, 12).join("\n");
  return new CliError("CANNOT_START", words || `the runtime did not become ready; see ${logPath}`, {
    exitCode: code === 2 ? 2 : 1,
  });
}
