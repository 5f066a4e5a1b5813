// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { deriveSeed, episodeId, groupName } from "@whetstone/core";
import { type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { type Episode, EpisodeSchema, FailureClass, Purpose, TerminationReason } from "@whetstone/proto/types/v1/types";

/** Which episode: `fl-1/g0/s0` unless told. */
export interface Place {
  readonly job?: string;
  readonly group?: number | string;
  readonly sample?: number;
}

/** A sound task of FrozenLake, with what the test cares for on top. */
export function buildTask(place: Place = {}, fields: MessageInitShape<typeof RolloutTaskSchema> = {}): RolloutTask {
  const { job = "fl-1", group = 0, sample = 0 } = place;
  const sound: MessageInitShape<typeof RolloutTaskSchema> = {
    episodeId: episodeId(job, group, sample),
    job,
    group: groupName(group),
    sample,
    purpose: Purpose.TRAIN,
    task: { id: `task-${groupName(group)}`, payload: { size: 4 } },
    seed: BigInt(deriveSeed(1, job, groupName(group), sample)),
    agent: { kind: "frozenlake" },
    environment: { kind: "frozenlake" },
    sampling: { temperature: 1 },
    model: job,
  };
  return create(RolloutTaskSchema, Object.assign(sound, fields));
}

/** A sealed episode of one call and one step, sampled by version 0, with reward 1, and the test's fields on top. */
export function buildEpisode(place: Place = {}, fields: MessageInitShape<typeof EpisodeSchema> = {}): Episode {
  const { job = "fl-1", group = 0, sample = 0 } = place;
  const sound: MessageInitShape<typeof EpisodeSchema> = {
    id: episodeId(job, group, sample),
    job,
    group: groupName(group),
    sample,
    attempt: 1,
    purpose: Purpose.TRAIN,
    task: { id: `task-${groupName(group)}` },
    trajectories: [
      { id: "agent", role: "agent", steps: [{ callId: "c0", action: "Right", reward: 1, done: true }], reward: 1 },
    ],
    calls: [
      {
        id: "c0",
        promptIds: [1, 2, 3],
        completionIds: [4, 5],
        logprobs: [-0.5, -0.25],
        versionSpans: [{ policyVersion: 0n, start: 0, end: 2 }],
        finishReason: "stop",
        role: "agent",
      },
    ],
    terminationReason: TerminationReason.ENV_DONE,
    failure: { failureClass: FailureClass.NONE },
    reward: 1,
    isCorrect: true,
  };
  return create(EpisodeSchema, Object.assign(sound, fields));
}
