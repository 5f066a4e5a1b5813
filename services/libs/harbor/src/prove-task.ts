// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "@whetstone/sdk";
import { ofThePlatform } from "@whetstone/swe";
import { type HarborTask, wrong } from "./task-folder.ts";
import { type HarborDeps, resolved, said, TaskSandbox, type TaskSandboxOptions } from "./task-sandbox.ts";
import { verify, type VerifyOptions } from "./verify.ts";

export interface Proof {
  /** What the task's own solution is worth: 1 for a sound task. */
  readonly gold: number;
  /** What nothing is worth: less than 1 for a sound task. */
  readonly empty: number;
}

export type ProofOptions = TaskSandboxOptions & Pick<VerifyOptions, "rewardKey" | "timeoutMultiplier">;

const SOLUTION = "/solution";
/** The task's solution has an end, where the task gives agents none. */
const SOLUTION_SECONDS = 3600;
const MAX_OUTPUT = 64 * 1024;

/** Judges the task's own solution and nothing at all, each in a sandbox of its own. @throws ConfigError, EpisodeError */
export async function proveTask(deps: HarborDeps, task: HarborTask, options: ProofOptions): Promise<Proof> {
  if (!task.solution.some(({ path }) => path === "solve.sh"))
    throw wrong(`${task.name}/solution/solve.sh`, "is not there");
  const reward = async (isSolved: boolean): Promise<number> => {
    await using shell = await TaskSandbox.open(deps, task, { ...options, emptyFolders: [SOLUTION] });
    if (isSolved) await solve(shell, task, options);
    return (await verify(shell, task, options)).reward;
  };
  return await ofThePlatform(async () => ({ gold: await reward(true), empty: await reward(false) }));
}

/** As Harbor's agent "oracle": how the script ends says nothing, what it leaves does. */
async function solve(shell: TaskSandbox, task: HarborTask, options: ProofOptions): Promise<void> {
  const { environment, timeoutMultiplier = 1, signal } = options;
  const { agent, solution } = task.config;
  const why = await shell.replaceFolder(SOLUTION, task.solution, "solve.sh", signal);
  if (why !== undefined) throw new EpisodeError("TASK", why);
  const env = { DEBIAN_FRONTEND: "noninteractive", ...resolved("solution.env", solution.env, environment) };
  const timeoutMs = (agent.timeout_sec ?? SOLUTION_SECONDS) * timeoutMultiplier * 1000;
  const result = await shell.runScript(`${SOLUTION}/solve.sh`, env, { timeoutMs, maxOutputBytes: MAX_OUTPUT, signal });
  if (result.failure === "DEADLINE") throw new EpisodeError("TASK", `its solution took too long: ${said(result)}`);
}
