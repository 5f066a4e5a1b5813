// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Awaitable } from "../base-env.ts";
import { EpisodeError, type FailureClass } from "../failure.ts";
import { defineRollout, type ParseArgs, type RegisteredRollout } from "../define.ts";
import type { Info } from "../types.ts";
import type { RolloutInput, RolloutResult } from "./rollout.ts";
import { type Launch, type ProgramEnd, runProgram } from "./run-program.ts";

/**
 * How one kind of program plays a task: the seam for command line agents that know nothing of Whetstone. A harness writes the
 * program's settings into the folder, so that it talks to `input.baseUrl`, and reads what came of it. The runtime gives each
 * try a folder of its own, runs the program in a process group of its own, kills the group at the deadline or a cancel, and
 * removes the folder. The plain one is the kind "command" (./command.ts).
 */
export interface Harness<Args> {
  prepare(input: RolloutInput<Args>, folder: string): Awaitable<Launch>;
  /** After the program has ended by itself. @throws EpisodeError of the class that its exit code stands for. */
  report(input: RolloutInput<Args>, folder: string, end: ProgramEnd): Awaitable<RolloutResult>;
}

export interface HarnessDefinition<Args> {
  readonly kind: string;
  readonly description: string;
  readonly parseArgs: ParseArgs<Args>;
  readonly argsSchema: Info;
  readonly harness: Harness<Args>;
}

export function defineHarness<Args>({ harness, ...definition }: HarnessDefinition<Args>): RegisteredRollout {
  return defineRollout<Args>({ ...definition, run: (input) => runHarness(harness, input) });
}

export async function runHarness<Args>(harness: Harness<Args>, input: RolloutInput<Args>): Promise<RolloutResult> {
  const folder = await mkdtemp(join(tmpdir(), "whetstone-agent-"));
  try {
    const launch = await harness.prepare(input, folder);
    return await harness.report(input, folder, await runProgram(launch, input.signal));
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** What a program's environment begins with: enough to find other programs, nothing that is secret. */
export function bareEnvironment(folder: string): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "", LANG: "C.UTF-8", HOME: folder, TMPDIR: folder };
}

/** sysexits.h and POSIX: wrong usage, wrong input, not executable, not found. They would be the same next time. */
const BROKEN_TASK: ReadonlySet<number> = new Set([64, 65, 66, 126, 127]);
const MESSAGE_TAIL = 700;

/** The class of an exit code other than 0: TASK for 64, 65, 66, 126 and 127, else INFRASTRUCTURE, or as the agent says. */
export function exitFailure(
  { exitCode, stdout, stderr }: ProgramEnd,
  classes: Readonly<Record<string, FailureClass>> = {},
): EpisodeError {
  const failureClass = classes[String(exitCode)] ?? (BROKEN_TASK.has(exitCode) ? "TASK" : "INFRASTRUCTURE");
  const said = (stderr.trim() || stdout.trim()).slice(-MESSAGE_TAIL);
  return new EpisodeError(failureClass, `the agent ended with exit code ${exitCode}: ${said || "it said nothing"}`);
}
