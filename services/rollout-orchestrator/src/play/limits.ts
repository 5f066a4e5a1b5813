// SPDX-License-Identifier: Apache-2.0
import type { Duration } from "@bufbuild/protobuf/wkt";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { type Filled, withDefaults } from "@whetstone/contract/defaults";
import { ClientSampling } from "@whetstone/proto/jobs/v1/jobs";
import {
  type PhaseTimeouts,
  type RolloutLimits,
  RolloutLimitsSchema,
  SamplingSchema,
} from "@whetstone/proto/types/v1/types";
import type { AgentExecutionEngineOptions, SamplingParams } from "@whetstone/sdk";
import type { SessionTerms } from "./gateway.ts";

type Limits = Pick<
  AgentExecutionEngineOptions,
  | "maxSteps"
  | "maxPromptLength"
  | "maxResponseLength"
  | "enforceMaxPromptLength"
  | "trajectoryTimeoutMs"
  | "retryLimit"
  | "gamma"
  | "overlongFilter"
  | "samplingParams"
  | "accumulateThinking"
  | "disableThinking"
  | "phaseTimeoutsMs"
>;

/** A task's budgets as the engine names them. */
export function limitsOf(task: Pick<RolloutTask, "limits" | "sampling">): Limits {
  const limits = budgetsOf(task);
  return {
    maxSteps: limits.maxSteps,
    maxPromptLength: limits.maxPromptTokens,
    maxResponseLength: limits.maxResponseTokens,
    enforceMaxPromptLength: limits.enforcePromptLimitEachStep,
    trajectoryTimeoutMs: msOf(limits.episodeTimeout),
    retryLimit: limits.retryLimit,
    gamma: limits.gamma,
    overlongFilter: limits.overlongFilter,
    samplingParams: samplingOf(task.sampling),
    accumulateThinking: limits.accumulateThinking,
    disableThinking: limits.disableThinking,
    phaseTimeoutsMs: phaseTimeoutsOf(limits.phaseTimeouts),
  };
}

/** Absent bounds stay absent: then only the deadline bounds the phase. */
function phaseTimeoutsOf(timeouts: PhaseTimeouts | undefined): Limits["phaseTimeoutsMs"] {
  if (timeouts === undefined) return undefined;
  const { reset, model, step, reward, close } = timeouts;
  return { reset: msOf(reset), model: msOf(model), step: msOf(step), reward: msOf(reward), close: msOf(close) };
}

function msOf(duration: Duration): number;
function msOf(duration: Duration | undefined): number | undefined;
function msOf(duration: Duration | undefined): number | undefined {
  return duration === undefined ? undefined : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

/** With the contract's defaults. */
export function budgetsOf({ limits }: Pick<RolloutTask, "limits">): Filled<RolloutLimits> {
  return withDefaults(RolloutLimitsSchema, limits);
}

export function episodeTimeoutMs(task: Pick<RolloutTask, "limits">): number {
  return msOf(budgetsOf(task).episodeTimeout);
}

const CLIENT_SAMPLING = {
  [ClientSampling.UNSPECIFIED]: "context",
  [ClientSampling.CONTEXT]: "context",
  [ClientSampling.OVERRIDE]: "override",
  [ClientSampling.REFUSE]: "refuse",
} as const;

/** What the gateway holds the agent's own client to. */
export function termsOf({ sampling, agent }: Pick<RolloutTask, "sampling" | "agent">): SessionTerms {
  const { temperature, topP, topK, minP, maxTokens } = samplingOf(sampling);
  return {
    sampling: { temperature, top_p: topP, top_k: topK, min_p: minP, max_tokens: maxTokens },
    client_sampling: CLIENT_SAMPLING[agent?.clientSampling ?? ClientSampling.CONTEXT],
  };
}

function samplingOf(sampling: RolloutTask["sampling"]): SamplingParams {
  const { temperature } = withDefaults(SamplingSchema, sampling);
  const { topP, topK, minP, maxTokens } = sampling ?? {}; // What is off is not asked for.
  return { temperature, topP, topK, minP, maxTokens };
}
