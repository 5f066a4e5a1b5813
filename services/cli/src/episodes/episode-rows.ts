// SPDX-License-Identifier: Apache-2.0
/** Episodes as rows of a table, one row a turn; docs/records.md describes the columns. */
import { versionOfEachToken } from "@whetstone/core";
import type { Episode, ModelCall, Step, Trajectory } from "@whetstone/proto/types/v1/types";
import {
  FailureClassSchema,
  ForkReasonSchema,
  PurposeSchema,
  TerminationReasonSchema,
} from "@whetstone/proto/types/v1/types";

import { enumShortName } from "../terminal/enum-names.ts";
import { seconds } from "../terminal/watch-view.ts";

/** An episode, and the step that trained it. */
export interface ExportedEpisode {
  readonly episode: Episode;
  /** Absent: none. */
  readonly trainedInStep?: number | undefined;
}

export type ColumnType = "text" | "integer" | "number" | "boolean" | "integers" | "numbers";
type Cell = string | number | bigint | boolean | readonly number[] | readonly bigint[] | null;

interface Turn extends ExportedEpisode {
  readonly trajectory?: Trajectory | undefined;
  readonly step?: Step | undefined;
  /** Index within the trajectory. */
  readonly index?: number | undefined;
  readonly call?: ModelCall | undefined;
}

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly cell: (turn: Turn) => Cell | undefined;
}

/** In the order in which they are written. */
export const COLUMNS: readonly Column[] = [
  { name: "episode_id", type: "text", cell: ({ episode }) => episode.id },
  { name: "job", type: "text", cell: ({ episode }) => episode.job },
  { name: "group", type: "text", cell: ({ episode }) => episode.group },
  { name: "sample", type: "integer", cell: ({ episode }) => episode.sample },
  { name: "attempt", type: "integer", cell: ({ episode }) => episode.attempt },
  { name: "purpose", type: "text", cell: ({ episode }) => enumShortName(PurposeSchema, episode.purpose) },
  { name: "task_id", type: "text", cell: ({ episode }) => episode.task?.id },
  { name: "task_source", type: "text", cell: ({ episode }) => episode.task?.source },
  { name: "task_payload", type: "text", cell: ({ episode }) => JSON.stringify(episode.task?.payload ?? {}) },
  { name: "seed", type: "text", cell: ({ episode }) => String(episode.seed) },
  {
    name: "termination_reason",
    type: "text",
    cell: ({ episode }) => enumShortName(TerminationReasonSchema, episode.terminationReason),
  },
  {
    name: "failure_class",
    type: "text",
    cell: ({ episode }) => enumShortName(FailureClassSchema, episode.failure?.failureClass ?? 0),
  },
  { name: "failure_phase", type: "text", cell: ({ episode }) => episode.failure?.phase },
  { name: "failure_message", type: "text", cell: ({ episode }) => episode.failure?.message },
  { name: "episode_reward", type: "number", cell: ({ episode }) => episode.reward },
  { name: "is_correct", type: "boolean", cell: ({ episode }) => episode.isCorrect },
  { name: "masked", type: "boolean", cell: ({ episode }) => episode.masked },
  { name: "trained_in_step", type: "integer", cell: ({ trainedInStep }) => trainedInStep },
  { name: "trajectory", type: "text", cell: ({ trajectory }) => trajectory?.id },
  { name: "role", type: "text", cell: ({ trajectory, call }) => trajectory?.role ?? call?.role },
  { name: "trajectory_reward", type: "number", cell: ({ trajectory }) => trajectory?.reward },
  { name: "step", type: "integer", cell: ({ index }) => index },
  { name: "observation", type: "text", cell: ({ step }) => step?.observation },
  { name: "image_digests", type: "text", cell: ({ step }) => step && step.imageDigests.join(" ") },
  { name: "model_response", type: "text", cell: ({ step, call }) => step?.modelResponse ?? call?.text },
  { name: "thought", type: "text", cell: ({ step }) => step?.thought },
  { name: "action", type: "text", cell: ({ step }) => step?.action },
  { name: "reward", type: "number", cell: ({ step }) => step?.reward },
  { name: "mc_return", type: "number", cell: ({ step }) => step?.mcReturn },
  { name: "done", type: "boolean", cell: ({ step }) => step?.done },
  { name: "call_id", type: "text", cell: ({ call }) => call?.id },
  { name: "parent_call_id", type: "text", cell: ({ call }) => call?.parentId },
  { name: "fork_reason", type: "text", cell: ({ call }) => call && enumShortName(ForkReasonSchema, call.forkReason) },
  { name: "finish_reason", type: "text", cell: ({ call }) => call?.finishReason },
  { name: "prompt_ids", type: "integers", cell: ({ call }) => call?.promptIds },
  { name: "completion_ids", type: "integers", cell: ({ call }) => call?.completionIds },
  { name: "logprobs", type: "numbers", cell: ({ call }) => call?.logprobs },
  { name: "policy_versions", type: "integers", cell: ({ call }) => call && policyVersions(call) },
  { name: "temperature", type: "number", cell: ({ call }) => call?.sampling?.temperature },
  { name: "call_seconds", type: "number", cell: ({ call }) => call && seconds(call.duration) },
];

/** An unlabelled token has the version -1. */
function policyVersions(call: ModelCall): number[] {
  return versionOfEachToken(call.completionIds.length, call.versionSpans).map((version) => Number(version ?? -1n));
}

/**
 * The turns of an episode: its steps, each with the call that answered it, then the calls that no step names. An episode
 * without any still has one row.
 */
export function turnsOf(exported: ExportedEpisode): Turn[] {
  const { calls, trajectories } = exported.episode;
  const byId = new Map(calls.map((call) => [call.id, call]));
  const steps = trajectories.flatMap((trajectory) =>
    trajectory.steps.map((step, index) => ({ ...exported, trajectory, step, index, call: byId.get(step.callId) })),
  );
  const named = new Set(steps.map(({ step }) => step.callId));
  const others = calls.filter(({ id }) => !named.has(id)).map((call) => ({ ...exported, call }));
  const turns = [...steps, ...others];
  return turns.length > 0 ? turns : [exported];
}
