// SPDX-License-Identifier: Apache-2.0
import { inspect } from "node:util";
import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { type Duration, durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { DeadlinePolicy } from "@whetstone/proto/jobs/v1/jobs";
import {
  type Episode,
  EpisodeSchema,
  FailureClass as WireClass,
  type ImageSchema,
  type ModelCall,
  Purpose,
  type StepSchema,
  TerminationReason as WireReason,
} from "@whetstone/proto/types/v1/types";
import type { Delivery } from "../tasks/delivery.ts";
import { sealable } from "./sealable.ts";
import type {
  Episode as PlayedEpisode,
  Failure,
  FailureClass,
  Step,
  TerminationReason,
  Trajectory,
} from "@whetstone/sdk";

const WIRE_REASON = {
  ENV_DONE: WireReason.ENV_DONE,
  MAX_TURNS: WireReason.MAX_TURNS,
  MAX_PROMPT_LENGTH: WireReason.MAX_PROMPT_LENGTH,
  MAX_RESPONSE_LENGTH: WireReason.MAX_RESPONSE_LENGTH,
  DEADLINE: WireReason.DEADLINE,
  CANCELLED: WireReason.CANCELLED,
  ERROR: WireReason.ERROR,
} as const satisfies Record<TerminationReason, WireReason>;

const WIRE_CLASS = {
  NONE: WireClass.NONE,
  POLICY: WireClass.POLICY,
  TASK: WireClass.TASK,
  ENVIRONMENT: WireClass.ENVIRONMENT,
  INFRASTRUCTURE: WireClass.INFRASTRUCTURE,
  GRADER: WireClass.GRADER,
  DEADLINE: WireClass.DEADLINE,
} as const satisfies Record<FailureClass, WireClass>;

/** The episode as it is stored for ever. */
export function seal({ task, attempt, waitingMs }: Delivery, given: PlayedEpisode, calls: ModelCall[]): Episode {
  const played = sealable(given);
  const { terminationReason: reason, failure, timing, trajectories } = played;
  const masked = played.masked || (reason === "DEADLINE" && task.deadlinePolicy === DeadlinePolicy.MASK);
  return create(EpisodeSchema, {
    id: task.episodeId,
    job: task.job,
    group: task.group,
    sample: task.sample,
    attempt,
    purpose: task.purpose,
    ...(task.task === undefined ? {} : { task: task.task }),
    trajectories: trajectories.map((trajectory) => wireTrajectory(trajectory, played.finalObservation)),
    calls: task.purpose === Purpose.TRAIN ? calls : calls.map(withoutSupport),
    terminationReason: WIRE_REASON[reason],
    failure: { ...failure, failureClass: WIRE_CLASS[failure.class] },
    reward: played.reward,
    isCorrect: played.isCorrect,
    metrics: played.metrics,
    timing: {
      total: duration(timing.totalMs),
      model: duration(timing.modelMs),
      environment: duration(timing.environmentMs),
      waiting: duration(timing.waitingMs + waitingMs),
    },
    seed: task.seed,
    startedAt: timestampFromMs(played.startedAtMs),
    masked,
    images: imagesOf(trajectories),
  });
}

/** Each once, however many steps show it. */
function imagesOf(trajectories: readonly Trajectory[]): MessageInitShape<typeof ImageSchema>[] {
  const seen = trajectories.flatMap(({ steps }) => steps.flatMap(({ images = [] }) => images));
  return [...new Map(seen.map((image) => [image.digest, image])).values()];
}

/** Only training reads what truncated sampling kept, and it may be most of an episode. */
function withoutSupport(call: ModelCall): ModelCall {
  return { ...call, supportIds: [], supportCounts: [] };
}

/** What an episode consists of that no agent and no environment took part in. */
export function nothingPlayed({ episodeId, task, seed }: RolloutTask) {
  return {
    id: episodeId,
    task: { id: task?.id ?? "", payload: {} },
    seed: Number(seed),
    trajectories: [],
    reward: 0,
    isCorrect: false,
    metrics: {},
    masked: false,
    finalObservation: "",
    tries: 1,
  };
}

/** A task whose deliveries are used up, as after crashes of whoever played it: sealed without being played once more (I6). */
export function sealUnplayed(delivery: Delivery, atMs: number): Episode {
  const message = `the task was delivered ${delivery.attempt} times and never sealed`;
  const failure = { class: "INFRASTRUCTURE", phase: "publish", message, code: "UNAVAILABLE" } as const;
  return sealFailed(delivery, failure, atMs, 0);
}

/** A task that waited too long for room in an environment. */
export function sealWithoutRoom(delivery: Delivery, atMs: number): Episode {
  const seconds = Math.round((delivery.withoutRoomMs ?? 0) / 1000);
  const message = `no env-runner had room for it in ${seconds} s (WHETSTONE_ROOM_TIMEOUT_MS)`;
  const failure = { class: "INFRASTRUCTURE", phase: "reset", message, code: "RESOURCE_EXHAUSTED" } as const;
  return sealFailed(delivery, failure, atMs, 0);
}

/** A task that no engine could play to its end. @param startedAtMs  Unix time */
export function sealFailed(delivery: Delivery, failure: Failure, startedAtMs: number, totalMs: number): Episode {
  const played = {
    ...nothingPlayed(delivery.task),
    terminationReason: failure.class === "DEADLINE" ? "DEADLINE" : "ERROR",
    failure,
    startedAtMs,
    timing: { totalMs, modelMs: 0, environmentMs: 0, waitingMs: 0 },
  } as const;
  return seal(delivery, played, []);
}

function duration(ms: number): Duration {
  return durationFromMs(Math.round(ms));
}

function wireTrajectory({ uid, name, steps, reward }: Trajectory, finalObservation: unknown) {
  return { id: uid, role: name, steps: steps.map(wireStep), reward, finalObservation: textOf(finalObservation) };
}

function wireStep(step: Step): MessageInitShape<typeof StepSchema> {
  return {
    callId: step.callId,
    observation: textOf(step.observation),
    modelResponse: step.modelResponse,
    action: textOf(step.action),
    thought: step.thought,
    reward: step.reward,
    done: step.done,
    mcReturn: step.mcReturn,
    info: step.info as JsonObject,
    imageDigests: (step.images ?? []).map(({ digest }) => digest),
  };
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  try {
    const text: unknown = JSON.stringify(value);
    if (typeof text === "string") return text;
  } catch {
    // In itself, or a bigint: an agent's own action may be anything.
  }
  return inspect(value);
}
