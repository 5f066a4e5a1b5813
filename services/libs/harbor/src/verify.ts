// SPDX-License-Identifier: Apache-2.0
import type { ExecResult } from "@whetstone/sandbox";
import { EpisodeError, type Info, type RewardOutput } from "@whetstone/sdk";
import { malformed, rewardOf, rewardsOfJson, rewardsOfText, type Rewards } from "./reward.ts";
import type { HarborTask } from "./task-folder.ts";
import { LOGS, resolved, said, type TaskSandbox, TESTS } from "./task-sandbox.ts";

// H1: what the agent has left in /tests and /logs/verifier is gone before the tests come, so that a reward is theirs.
// H2: nothing that the agent has started runs any more: each command has a process namespace of its own.
// H3: a reward that is missing, or is none, is a failure of the grader, as it is an error in Harbor, and never 0 (I6).

export interface VerifyOptions {
  /** Variables of the job. */
  readonly environment: Readonly<Record<string, string>>;
  /** Of several rewards the one that counts. Default: `reward`, or the only one. */
  readonly rewardKey?: string | undefined;
  /** Of all times that the task says. Default 1. */
  readonly timeoutMultiplier?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const VERIFIER = `${LOGS}/verifier`;
const MAX_OUTPUT = 4 * 1024 * 1024;
const MAX_REWARD_BYTES = 64 * 1024;
const READ_MS = 30_000;

/** Runs the task's tests on what is there now. @throws EpisodeError GRADER, SandboxError */
export async function verify(shell: TaskSandbox, task: HarborTask, options: VerifyOptions): Promise<RewardOutput> {
  const { environment, rewardKey, timeoutMultiplier = 1, signal } = options;
  const { verifier } = task.config;
  const why =
    (await shell.emptyLogs("verifier", signal)) ?? (await shell.replaceFolder(TESTS, task.tests, "test.sh", signal)); // H1
  if (why !== undefined) return { reward: 0, isCorrect: false, metadata: { reason: why } };
  const timeoutMs = verifier.timeout_sec * timeoutMultiplier * 1000;
  const env = resolved("verifier.env", verifier.env, environment);
  const result = await shell.runScript(`${TESTS}/test.sh`, env, { timeoutMs, maxOutputBytes: MAX_OUTPUT, signal });
  if (result.failure === "DEADLINE") {
    const limit = `${timeoutMs / 1000} s (task.toml: verifier.timeout_sec)`;
    throw new EpisodeError("GRADER", `the tests took longer than ${limit}: ${said(result)}`);
  }
  const rewards = await rewardsOf(shell, result, signal);
  const reward = rewardOf(rewards, rewardKey);
  const isCorrect = reward >= 1;
  const metadata: Info = { rewards, ...(isCorrect ? {} : { testLog: result.stdout.slice(-2000) }) };
  return { reward, isCorrect, metadata };
}

/** As Harbor reads them: the JSON first. */
async function rewardsOf(shell: TaskSandbox, tests: ExecResult, signal?: AbortSignal): Promise<Rewards> {
  for (const [file, read] of [
    ["reward.json", rewardsOfJson],
    ["reward.txt", rewardsOfText],
  ] as const) {
    const script = '[ -f "$1" ] || exit 44; head -c "$2" "$1"';
    const command = ["sh", "-c", script, "sh", `${VERIFIER}/${file}`, String(MAX_REWARD_BYTES + 1)];
    const limits = { deadlineMs: READ_MS, maxOutputBytes: 2 * MAX_REWARD_BYTES, stdin: "", signal };
    const result = await shell.sandbox.exec(command, limits).result;
    if (result.exitCode === 44) continue;
    if (result.exitCode !== 0) throw malformed(file, `cannot be read: ${said(result)}`);
    if (result.stdout.length > MAX_REWARD_BYTES) throw malformed(file, `is larger than ${MAX_REWARD_BYTES} bytes`);
    return read(result.stdout);
  }
  throw malformed("reward.txt", `was not written, and neither was reward.json; the tests said: ${said(tests)}`); // H3
}
