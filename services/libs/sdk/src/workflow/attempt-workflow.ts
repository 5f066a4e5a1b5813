// SPDX-License-Identifier: Apache-2.0
import { type Ending, endingOf } from "../engine/ending.ts";
import type { EpisodeRun } from "../engine/options.ts";
import type { TryResult } from "../engine/tries.ts";
import { A_REWARD, isReward, shown } from "../environment-values.ts";
import {
  classify,
  EpisodeError,
  type Failure,
  NO_FAILURE,
  PromptTooLongError,
  type TerminationReason,
} from "../failure.ts";
import { checkSteps } from "../rewards.ts";
import { createTrajectory, type Trajectory } from "../types.ts";
import type { WorkflowSettings } from "./options.ts";
import { ownFailure } from "./places.ts";
import { WorkflowAttempt } from "./workflow-attempt.ts";
import { Stage } from "./stage.ts";
import { TerminationEvent } from "./termination.ts";
import type { Workflow, WorkflowOutcome, WorkflowResult } from "./workflow.ts";

export interface WorkflowTry extends TryResult {
  readonly terminationReason: TerminationReason;
  readonly failure: Failure;
  readonly outcome: WorkflowOutcome;
}

const NOTHING: WorkflowOutcome = { trajectories: [], reward: 0, isCorrect: false, metrics: {} };

/** Plays one try with a fresh workflow. Never throws; whatever was opened is closed. */
export async function attemptWorkflow(settings: WorkflowSettings, run: EpisodeRun): Promise<WorkflowTry> {
  using attempt = new WorkflowAttempt(settings, run);
  let outcome = NOTHING;
  let ending: Ending;
  try {
    attempt.clientOf("");
    const workflow = settings.workflowFactory();
    const stage = new Stage(attempt, workflow, run.task);
    const played = await playToEnd(stage);
    attempt.end();
    const settled = settle(workflow, played, settings);
    if (played.thrown === undefined) checkOutcome(settled);
    outcome = settled;
    if (played.thrown !== undefined) throw played.thrown.error;
    ending = played;
    await attempt.finish(outcome.trajectories.flatMap(({ steps }) => steps));
  } catch (error) {
    attempt.end();
    ending = endingOf(...placeOf(attempt, error), run);
    attempt.abandon();
  }
  const closeFailure = await attempt.close();
  const { reason: terminationReason, failure } = ending;
  const { modelMs, environmentMs } = attempt;
  return {
    terminationReason,
    failure: failure === NO_FAILURE ? closeFailure : failure,
    outcome,
    modelMs,
    environmentMs,
  };
}

interface Played extends Ending {
  readonly result: WorkflowResult;
  /** What is no end of a workflow's own: the try has failed. */
  readonly thrown?: { readonly error: unknown };
}

/** Endings that are the workflow's or the policy's own are scored like any other. */
async function playToEnd(stage: Stage): Promise<Played> {
  const { attempt } = stage;
  try {
    return { reason: "ENV_DONE", failure: NO_FAILURE, result: await stage.play() };
  } catch (error) {
    const own = { failure: NO_FAILURE, result: {} };
    if (error instanceof TerminationEvent) return { ...own, reason: error.reason };
    if (error instanceof PromptTooLongError) return { ...own, reason: "MAX_PROMPT_LENGTH" };
    const failure = classify(...placeOf(attempt, error));
    const scored = failure.class === "POLICY" && !attempt.run.signal.aborted;
    return { reason: "ERROR", failure, result: {}, ...(scored ? {} : { thrown: { error } }) };
  }
}

function placeOf(attempt: WorkflowAttempt, thrown: unknown) {
  const { error, phase } = attempt.places.find(thrown) ?? {
    error: ownFailure(thrown, "workflow"),
    phase: attempt.lastPhase,
  };
  return [error, phase] as const;
}

/** What the workflow shaped or returned. @throws EpisodeError TASK naming it: the same code does the same again. */
function checkOutcome({ trajectories, reward, isCorrect, metrics }: WorkflowOutcome): void {
  for (const { name, steps } of trajectories) checkSteps(steps, `the workflow, in its role "${name}",`);
  const wrong = (what: string, rule: string): EpisodeError =>
    new EpisodeError("TASK", `the workflow returned ${what}: it must be ${rule}`);
  if (!isReward(reward)) throw wrong(`reward ${shown(reward)}`, A_REWARD);
  if (typeof isCorrect !== "boolean") throw wrong(`isCorrect ${shown(isCorrect)}`, "true or false");
  for (const [name, value] of Object.entries(metrics))
    if (!isReward(value)) throw wrong(`metrics.${name} ${shown(value)}`, A_REWARD);
}

/** What a workflow that still runs after its deadline does to its steps must not show any more: they are copies then. */
function settle(workflow: Workflow, { result, thrown }: Played, { gamma }: WorkflowSettings): WorkflowOutcome {
  const outcome = workflow.postprocess(result, gamma);
  return thrown === undefined ? outcome : { ...outcome, trajectories: outcome.trajectories.map(copyOf) };
}

function copyOf({ steps, ...trajectory }: Trajectory): Trajectory {
  return createTrajectory({ ...trajectory, steps: steps.map((step) => ({ ...step })) });
}
