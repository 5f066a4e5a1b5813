// SPDX-License-Identifier: Apache-2.0
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
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
  };
}

const DEFAULT_TIMEOUT_MS = 300_000;

export function episodeTimeoutMs({ limits }: Pick<RolloutTask, "limits">): number {
  const timeout = limits?.episodeTimeout;
  return timeout === undefined ? DEFAULT_TIMEOUT_MS : Number(timeout.seconds) * 1000 + timeout.nanos / 1e6;
}

function samplingOf(sampling: RolloutTask["sampling"]): SamplingParams {
  const { temperature = 1, topP, topK, maxTokens } = sampling ?? {};
  return { temperature, topP, topK, maxTokens };
}
