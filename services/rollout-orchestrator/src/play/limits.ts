// SPDX-License-Identifier: Apache-2.0
import type { Duration } from "@bufbuild/protobuf/wkt";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import type { PhaseTimeouts } from "@whetstone/proto/types/v1/types";
import type { AgentExecutionEngineOptions, SamplingParams } from "@whetstone/sdk";

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

/** A task's budgets as the engine names them; what is absent has the engine's default, which is the contract's. */
export function limitsOf({ limits, sampling }: Pick<RolloutTask, "limits" | "sampling">): Limits {
  return {
    maxSteps: limits?.maxSteps,
    maxPromptLength: limits?.maxPromptTokens,
    maxResponseLength: limits?.maxResponseTokens,
    enforceMaxPromptLength: limits?.enforcePromptLimitEachStep,
    trajectoryTimeoutMs: episodeTimeoutMs({ limits }),
    retryLimit: limits?.retryLimit,
    gamma: limits?.gamma,
    overlongFilter: limits?.overlongFilter,
    samplingParams: samplingOf(sampling),
    accumulateThinking: limits?.accumulateThinking,
    disableThinking: limits?.disableThinking,
    phaseTimeoutsMs: phaseTimeoutsOf(limits?.phaseTimeouts),
  };
}

/** Absent bounds stay absent: then only the deadline bounds the phase. */
function phaseTimeoutsOf(timeouts: PhaseTimeouts | undefined): Limits["phaseTimeoutsMs"] {
  if (timeouts === undefined) return undefined;
  const { reset, model, step, reward, close } = timeouts;
  return { reset: msOf(reset), model: msOf(model), step: msOf(step), reward: msOf(reward), close: msOf(close) };
}

function msOf(duration: Duration | undefined): number | undefined {
  return duration === undefined ? undefined : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

const DEFAULT_TIMEOUT_MS = 300_000;

export function episodeTimeoutMs({ limits }: Pick<RolloutTask, "limits">): number {
  return msOf(limits?.episodeTimeout) ?? DEFAULT_TIMEOUT_MS;
}

function samplingOf(sampling: RolloutTask["sampling"]): SamplingParams {
  const { temperature = 1, topP, topK, maxTokens } = sampling ?? {};
  return { temperature, topP, topK, maxTokens };
}
