// SPDX-License-Identifier: Apache-2.0
import type { Environment } from "../base-env.ts";
import { gradeEnvironment } from "../environment-values.ts";
import { classify, type Failure, NO_FAILURE, PromptTooLongError, type TerminationReason } from "../failure.ts";
import type { RolloutClient } from "../rollout-client.ts";
import { checkSteps } from "../rewards.ts";
import { createTrajectory, type Step, type Trajectory } from "../types.ts";
import { closeWithin } from "./closing.ts";
import { type Ending, endingOf, isMasked } from "./ending.ts";
import type { EngineSettings, EpisodeRun } from "./options.ts";
import { PhaseClock } from "./phase-clock.ts";
import { play, type PlayState } from "./play.ts";
import { SeenImages } from "./seen-images.ts";

/** What came of one try. */
export interface Outcome {
  readonly terminationReason: TerminationReason;
  readonly failure: Failure;
  readonly trajectory: Trajectory | undefined;
  readonly finalObservation: unknown;
  readonly modelMs: number;
  readonly environmentMs: number;
}

/** Plays one try with a fresh agent and environment. Never throws; whatever was opened is closed. */
export async function attempt(settings: EngineSettings, run: EpisodeRun): Promise<Outcome> {
  using phases = new PhaseClock(run.signal, settings.phaseTimeoutsMs);
  const opened = new Opened();
  let state: PlayState | undefined;
  let ending: Ending;
  try {
    const inner = phases.signal === run.signal ? run : { ...run, signal: phases.signal };
    const ready = (state = await preparePlay(settings, inner, phases, opened));
    const played = await ownEnding(ready, async () => ({ reason: await play(ready), failure: NO_FAILURE }));
    ending = await ownEnding(ready, async () => {
      await score(ready, played.reason);
      return played;
    });
    await phases.run("model", () => ready.client.finish?.(ready.steps, phases.signal));
  } catch (error) {
    ending = endingOf(error, phases.phase, run);
    opened.client?.abandon?.();
  }
  const closeFailure = await close(opened, settings, phases);
  return outcomeOf(state, phases, ending, closeFailure);
}

class Opened {
  environment: Environment | undefined;
  client: RolloutClient | undefined;
  /** What arrives from now on closes itself. */
  closed = false;
}

async function preparePlay(
  settings: EngineSettings,
  run: EpisodeRun,
  phases: PhaseClock,
  opened: Opened,
): Promise<PlayState> {
  const { rolloutClient, agentFactory, environmentFactory } = settings;
  const args = { ...settings.environmentArgs, ...run.task.payload };
  opened.client = typeof rolloutClient === "function" ? rolloutClient(run) : rolloutClient;
  const agent = agentFactory(settings.agentArgs, run);
  const environment = await phases.run("reset", async () => {
    const made = await environmentFactory(args, run);
    if (opened.closed) await made.close();
    else opened.environment = made;
    return made;
  });
  return {
    run,
    settings,
    agent,
    environment,
    client: opened.client,
    phases,
    steps: [],
    observation: "",
    images: new SeenImages(),
  };
}

/** Endings that are the policy's own are scored like any other; everything else is thrown. */
async function ownEnding({ phases, run }: PlayState, work: () => Promise<Ending>): Promise<Ending> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof PromptTooLongError) return { reason: "MAX_PROMPT_LENGTH", failure: NO_FAILURE };
    const failure = classify(error, phases.phase);
    if (failure.class !== "POLICY" || run.signal.aborted) throw error;
    return { reason: "ERROR", failure };
  }
}

/** The environment's final reward replaces the last step's. */
export async function score(
  { environment, steps, phases, run, settings }: PlayState,
  reason: TerminationReason,
): Promise<void> {
  const last = steps.at(-1);
  if (last !== undefined && environment.computeFinalReward !== undefined && !isMasked(reason, settings))
    last.reward = await phases.run("reward", () => gradeEnvironment(environment, { signal: run.signal }) ?? 0);
  checkSteps(steps, "the agent"); // They are its own objects.
}

/** I9: on every path. */
async function close(opened: Opened, { closeTimeoutMs }: EngineSettings, phases: PhaseClock): Promise<Failure> {
  const { environment } = opened;
  opened.closed = true;
  if (environment === undefined) return NO_FAILURE;
  const startedAt = performance.now();
  const failure = await closeWithin(environment, closeTimeoutMs);
  phases.environmentMs += performance.now() - startedAt;
  return failure;
}

function outcomeOf(
  state: PlayState | undefined,
  { modelMs, environmentMs }: PhaseClock,
  { reason, failure }: Ending,
  closeFailure: Failure,
): Outcome {
  return {
    terminationReason: reason,
    failure: failure === NO_FAILURE ? closeFailure : failure,
    trajectory: state && state.steps.length > 0 ? trajectoryOf(state.agent.trajectory, state.steps) : undefined,
    finalObservation: state?.observation ?? "",
    modelMs,
    environmentMs,
  };
}

/** Only steps that the model answered: agents may have opened one more for the last observation. */
function trajectoryOf({ uid, name, info }: Trajectory, steps: Step[]): Trajectory {
  return createTrajectory({ uid, name, info, steps });
}
