// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type Episode,
  FailureClass,
  type ReplayDifference,
  ReplayDifferenceSchema,
  type Step,
  TerminationReason,
  type Trajectory,
} from "@whetstone/proto/types/v1/types";

type Place = Pick<MessageInitShape<typeof ReplayDifferenceSchema>, "role" | "trajectory" | "step">;
type Value = string | number | boolean;

/** Rewards are sums of floats, maybe in another order. */
const SAME_REWARD = 1e-9;

/**
 * What came out otherwise. Of an episode that failed or was cut by time, only the turns that both have are compared: how it
 * ended was not the agent's and the environment's doing.
 */
export function compareEpisodes(recorded: Episode, replayed: Episode): ReplayDifference[] {
  const whole = endedByItself(recorded);
  const found = new Findings(whole);
  recorded.trajectories.forEach((trajectory, index) => {
    const other = replayed.trajectories[index];
    const place = { role: trajectory.role, trajectory: index };
    if (other !== undefined) compareTrajectories(found, place, trajectory, other);
    else if (whole) found.note(place, "steps", trajectory.steps.length, 0);
  });
  if (whole) compareEnds(found, recorded, replayed);
  return found.differences;
}

class Findings {
  readonly differences: ReplayDifference[] = [];
  /** Whether ends are compared, too. */
  readonly whole: boolean;

  constructor(whole: boolean) {
    this.whole = whole;
  }

  note(place: Place, field: string, recorded: Value, replayed: Value): void {
    if (recorded === replayed) return;
    const texts = { recorded: String(recorded), replayed: String(replayed) };
    this.differences.push(create(ReplayDifferenceSchema, { ...place, field, ...texts }));
  }

  reward(place: Place, recorded: number, replayed: number): void {
    if (Math.abs(recorded - replayed) > SAME_REWARD) this.note(place, "reward", recorded, replayed);
  }
}

function endedByItself({ terminationReason, failure }: Episode): boolean {
  const sound = failure?.failureClass ?? FailureClass.NONE;
  const byTime = terminationReason === TerminationReason.DEADLINE || terminationReason === TerminationReason.CANCELLED;
  return !byTime && (sound === FailureClass.NONE || sound === FailureClass.POLICY);
}

function compareTrajectories(found: Findings, place: Place, recorded: Trajectory, replayed: Trajectory): void {
  recorded.steps.forEach((step, index) => {
    const other = replayed.steps[index];
    if (other !== undefined) compareSteps(found, { ...place, step: index }, step, other);
  });
  if (!found.whole) return;
  found.note(place, "steps", recorded.steps.length, replayed.steps.length);
  found.note(place, "final_observation", recorded.finalObservation, replayed.finalObservation);
}

function compareSteps(found: Findings, place: Place, recorded: Step, replayed: Step): void {
  found.note(place, "observation", recorded.observation, replayed.observation);
  found.note(place, "action", recorded.action, replayed.action);
  found.reward(place, recorded.reward, replayed.reward);
  found.note(place, "done", recorded.done, replayed.done);
}

function compareEnds(found: Findings, recorded: Episode, replayed: Episode): void {
  const nowhere = { role: "" };
  found.note(nowhere, "is_correct", recorded.isCorrect, replayed.isCorrect);
  const reasons = [recorded, replayed].map(({ terminationReason }) => TerminationReason[terminationReason]);
  found.note(nowhere, "termination_reason", reasons[0] ?? "", reasons[1] ?? "");
  found.note(nowhere, "failure", failureText(recorded), failureText(replayed));
}

function failureText({ failure }: Episode): string {
  if (failure === undefined || failure.failureClass === FailureClass.NONE) return "NONE";
  return `${FailureClass[failure.failureClass]} in ${failure.phase}: ${failure.message}`;
}
