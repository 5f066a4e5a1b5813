// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "../failure.ts";
import { createStep, type Task } from "../types.ts";
import type { WorkflowContext } from "../workflow/context.ts";
import { giveRestToLast, readReport } from "./read-report.ts";
import { ownFailure } from "../workflow/places.ts";
import { Workflow, type WorkflowResult } from "../workflow/workflow.ts";
import type { RolloutFunction, RolloutInput, RolloutReport, RolloutResult } from "./rollout.ts";

interface Verdict {
  readonly reward: number;
  readonly isCorrect?: boolean | undefined;
}

/** Plays a rollout as a workflow: the function leads, the environment, where there is one, scores its output. */
export class RolloutWorkflow extends Workflow {
  readonly #run: RolloutFunction;

  constructor(run: RolloutFunction) {
    super();
    this.#run = run;
  }

  async run(task: Task, context: WorkflowContext): Promise<WorkflowResult> {
    const { uid: episodeId, seed, signal } = context;
    const deadline = Date.now() + Math.min(context.remainingMs(), LONGEST_MS);
    const input = {
      task,
      args: {},
      ...(await context.openEndpoint()),
      episodeId,
      try: context.try,
      seed,
      signal,
      deadline,
    };
    const report = readReport(await this.#call(input));
    const verdict = await judge(report, context);
    this.#commit(report, verdict);
    const { isCorrect = report.isCorrect ?? verdict.reward > 0 } = verdict;
    return { reward: verdict.reward, isCorrect, metrics: report.metrics };
  }

  async #call(input: RolloutInput): Promise<RolloutResult> {
    try {
      return await this.#run(input);
    } catch (error) {
      throw ownFailure(error, "rollout");
    }
  }

  /**
   * A rollout that tells nothing of its turns has one: its output. The reward of an only trajectory is the episode's; of
   * several each has its own.
   */
  #commit({ trajectories = [], output = "" }: RolloutReport, { reward }: Verdict): void {
    if (trajectories.length === 1) giveRestToLast(trajectories[0]?.steps ?? [], reward);
    for (const trajectory of trajectories) this.commit(trajectory.name, trajectory);
    if (trajectories.some(({ steps }) => steps.length > 0)) return;
    const modelResponse = typeof output === "string" ? output : JSON.stringify(output);
    this.commit("agent", [createStep({ modelResponse, action: output, reward, done: true })]);
  }
}

/** A deadline is a date: even "never" must be one. */
const LONGEST_MS = 2 ** 31 - 1;

/** The environment's word counts before the rollout's own. @throws EpisodeError TASK when nobody can tell the reward. */
async function judge(report: RolloutReport, context: WorkflowContext): Promise<Verdict> {
  if (context.hasEnvironment && (report.output !== undefined || report.reward === undefined)) {
    return scoreOutput(report.output ?? "", context);
  }
  if (report.reward !== undefined) return { reward: report.reward };
  const rewards = (report.trajectories ?? []).flatMap(({ steps }) => steps.map(({ reward }) => reward));
  if (rewards.length > 0) return { reward: rewards.reduce((sum, reward) => sum + reward, 0) };
  throw new EpisodeError(
    "TASK",
    "the rollout reported no reward, and the job names no environment that could score it",
  );
}

/** reset → step(output) → reward. */
async function scoreOutput(output: unknown, context: WorkflowContext): Promise<Verdict> {
  const environment = await context.openEnvironment();
  await environment.reset();
  const { reward: ofStep, info } = await environment.step(output);
  const reward = (await environment.finalReward()) ?? ofStep;
  if (reward === undefined) throw new EpisodeError("ENVIRONMENT", "the environment gave the output no reward");
  const { success } = info;
  return { reward, ...(typeof success === "boolean" ? { isCorrect: success } : {}) };
}
