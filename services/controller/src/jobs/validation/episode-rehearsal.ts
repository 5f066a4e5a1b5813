// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { episodeId, WhetstoneError } from "@whetstone/core";
import { type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import type { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import {
  EpisodeSchema,
  type Failure,
  FailureClass,
  ModelCallSchema,
  ModuleSchema,
  Purpose,
  RolloutLimitsSchema,
} from "@whetstone/proto/types/v1/types";
import type { RpcClient } from "@whetstone/rpc";
import { compileJob } from "../compiled-job.ts";
import { trainTask } from "../../loop/batch/tasks.ts";
import type { Violation } from "./validate-job.ts";
import type { Rehearsal } from "./environment-rehearsal.ts";

/** What the model says in a rehearsal, each time that it is asked. */
const ANSWER = "rehearsal";
const ANSWERS_A_ROLE = 16;
/** Enough for a step, and for one after it. */
const TURNS = 2;
const EPISODE_MS = 20_000;
/** The process of the job's own code may have to start. */
const CALL_MS = 60_000;

/** Failures of the user's own code; others (a deadline, more calls than there are answers) say nothing about it. */
const USERS_FAULT: Partial<Record<FailureClass, "agent" | "environment">> = {
  [FailureClass.TASK]: "agent",
  [FailureClass.ENVIRONMENT]: "environment",
  [FailureClass.GRADER]: "environment",
};

/** What a rehearsal may meet that is no fault of the job's: the job starts, and its episodes will say. */
const NO_VERDICT: ReadonlySet<string> = new Set([
  "FAILED_PRECONDITION", // A rollout calls the model by itself.
  "HANDED_BACK",
  "DEADLINE_EXCEEDED",
  "RESOURCE_EXHAUSTED",
  "UNAVAILABLE",
]);

/** What an environment fails with may pass: only one that fails each time is refused. */
const ENVIRONMENT_TRIES = 3;

/** Plays a short episode of the job's agent and environment with scripted answers, so that what always fails is found here. */
export async function rehearseEpisode(
  rollouts: Pick<RpcClient<typeof RolloutService>, "replay">,
  rehearsal: Rehearsal,
): Promise<Violation[]> {
  for (let tries = 1; ; tries++) {
    const failure = await playOnce(rollouts, rehearsal);
    if (failure === undefined) return [];
    const mayPass = failure.failureClass === FailureClass.ENVIRONMENT && tries < ENVIRONMENT_TRIES;
    if (!mayPass) return violationsOf(failure);
  }
}

/** How the episode failed; undefined: it did not, or says nothing about the job. */
async function playOnce(
  rollouts: Pick<RpcClient<typeof RolloutService>, "replay">,
  rehearsal: Rehearsal,
): Promise<Failure | undefined> {
  const task = rehearsalTask(rehearsal);
  const roles = new Set(["agent", ...rehearsal.spec.roles.map(({ name }) => name)]);
  const calls = [...roles].flatMap((role) => Array.from({ length: ANSWERS_A_ROLE }, (_, i) => answer(role, i)));
  const recorded = create(EpisodeSchema, { id: task.episodeId, attempt: 1, purpose: Purpose.VALIDATION, calls });
  try {
    const { replayed } = await rollouts.replay({ task, recorded }, { deadlineMs: CALL_MS });
    return replayed?.failure;
  } catch (error) {
    if (NO_VERDICT.has(WhetstoneError.from(error).code)) return undefined;
    throw error;
  }
}

function rehearsalTask({ spec, module, task }: Rehearsal): RolloutTask {
  const job = compileJob(spec);
  const limits = {
    ...spec.limits,
    maxSteps: Math.min(spec.limits?.maxSteps ?? TURNS, TURNS),
    retryLimit: 0,
    episodeTimeout: durationFromMs(Math.min(job.episodeTimeoutMs, EPISODE_MS)),
  };
  return create(RolloutTaskSchema, {
    ...trainTask({ ...spec, limits: create(RolloutLimitsSchema, limits) }, job, {
      group: 0,
      sample: 0,
      isBaseline: false,
      task,
    }),
    episodeId: episodeId(job.name, "rehearsal", 0), // Not the first episode's: a crash here must not count against that.
    group: "rehearsal",
    purpose: Purpose.VALIDATION,
    ...(module && { module: create(ModuleSchema, module) }),
  });
}

function answer(role: string, i: number) {
  return create(ModelCallSchema, { id: `${role}-${i}`, role, text: ANSWER, finishReason: "stop" });
}

function violationsOf({ failureClass, phase, message }: Failure): Violation[] {
  const who = USERS_FAULT[failureClass];
  if (who === undefined) return [];
  const [, argument, rule] = /^(args[\w.[\]]*): (.*)$/s.exec(message) ?? [];
  if (argument !== undefined && rule !== undefined) return [{ path: `${who}.${argument}`, reason: rule }];
  const failed = [FailureClass[failureClass], phase].filter(Boolean).join(" ");
  return [{ path: who, reason: `one episode was played with the scripted answer "${ANSWER}": ${failed}: ${message}` }];
}
