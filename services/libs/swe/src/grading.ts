// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { type ExecResult, FileConflictError, type Sandbox, type SandboxBackend } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { z } from "zod";
import { REPO } from "./library.ts";
import type { OpenedLibrary } from "./library-store.ts";
import type { SourceChange } from "./source-change.ts";
import { graderLimits, toolCommand, toolEnvironment } from "./tool-command.ts";
import { unresolved, type Verdict, verdictOf } from "./verdict.ts";
import type { SweTask } from "./task.ts";
import { brokenSources, filesOf } from "./workspace.ts";

// G1: the tests run in a fork that the agent has never seen: its change of the library's own code is all that is carried over.
// G2: nothing that runs there can speak for the grader: its answer begins with a word that it reads when the tests are over.
// G3: where the grader did not begin, nothing is known of the repair (I6); what happens after that is the repair's doing.

const AnswerSchema = z.object({
  tampering: z.array(z.string()).default([]),
  results: z.record(z.string(), z.enum(["passed", "failed", "skipped"])).default({}),
  finished: z.boolean().default(true),
});

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** More than this, and so many times what the tests compute by themselves, they may not compute. */
const CPU_SECONDS = 10;
const TIMES = 10;
/** So much longer they may last: machines are busy. It ends what sleeps. */
const BUSY = 6;
/** For Python to start and pytest to be imported. */
const START_SECONDS = 60;

export interface GradeOptions {
  readonly change: SourceChange;
  /** How long the tests may last. Default: many times what they take by themselves. */
  readonly testSeconds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** @throws EpisodeError GRADER, SandboxError */
export async function gradeChange(
  backend: SandboxBackend,
  library: OpenedLibrary,
  task: SweTask,
  { change, testSeconds, signal }: GradeOptions,
): Promise<Verdict> {
  const { suite, stable, seconds: usual } = library.record;
  const broken = brokenSources(library, task);
  const files = filesOf(broken, library.sources);
  await using sandbox = await backend.open({ prepared: library.state, files, limits: graderLimits(suite), signal });
  if (!(await carryOver(change, sandbox, signal))) return unresolved("its files do not fit into the library");
  const cpuSeconds = testSeconds ?? Math.ceil(CPU_SECONDS + TIMES * usual);
  const seconds = testSeconds ?? BUSY * cpuSeconds;
  const changed = Object.fromEntries([...change.written.keys()].map((path) => [path, broken.get(path) ?? ""]));
  const word = randomBytes(16).toString("hex");
  const request = JSON.stringify({
    suite,
    seconds,
    cpuSeconds,
    changed,
    only: [...new Set([...stable, ...task.failToPass])],
  });
  const result = await sandbox.exec(toolCommand("grading", sandbox), {
    stdin: `${request}\n${word}\n`,
    deadlineMs: (seconds + START_SECONDS) * 1000,
    maxOutputBytes: MAX_ANSWER_BYTES,
    env: toolEnvironment(sandbox),
    signal,
  }).result;
  return judge(result, word, (answer) => verdictOf(answer, task.failToPass, stable));
}

/** G1. A file may have become a folder, so that what is gone goes first. False: what is not carried over is in the way. */
async function carryOver({ deleted, written }: SourceChange, sandbox: Sandbox, signal?: AbortSignal): Promise<boolean> {
  const paths = deleted.map((path) => `${REPO}/${path}`);
  if (paths.length > 0) await sandbox.exec(["rm", "-f", "--", ...paths], { signal }).result;
  const files = [...written].map(([path, content]) => ({ path: `${REPO}/${path}`, content }));
  try {
    await sandbox.upload(files, signal);
    return true;
  } catch (error) {
    if (error instanceof FileConflictError) return false;
    throw error;
  }
}

function judge(result: ExecResult, word: string, verdict: (answer: z.output<typeof AnswerSchema>) => Verdict): Verdict {
  const lines = result.stdout.split("\n");
  if (lines[0] !== "ready") {
    const why = result.stderr.trim().slice(-500) || `exit code ${result.exitCode}`;
    throw new EpisodeError("GRADER", `the grader did not start: ${why}`); // G3
  }
  const answer = lines.find((line) => line.startsWith(`${word} `)); // G2
  if (answer !== undefined) return verdict(AnswerSchema.parse(JSON.parse(answer.slice(word.length + 1))));
  return unresolved(`the tests did not come to their end (${result.failure ?? `exit code ${result.exitCode}`})`);
}
