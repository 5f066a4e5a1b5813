// SPDX-License-Identifier: Apache-2.0
// Generated from the contract by `make gen`. Do not edit.
/** By message, the fields that have a default. */
export interface FilledFields {
  "whetstone.jobs.v1.JobSpec": "sampling" | "limits" | "seed" | "weight" | "weights" | "sharding";
  "whetstone.jobs.v1.Lora": "rank";
  "whetstone.jobs.v1.AgentSpec": "clientSampling";
  "whetstone.jobs.v1.EnvironmentSpec": "pool";
  "whetstone.jobs.v1.Dataset": "repeat";
  "whetstone.jobs.v1.Validation": "everySteps" | "atStart" | "atEnd";
  "whetstone.jobs.v1.ValidationVariant": "attempts";
  "whetstone.types.v1.Sampling": "temperature" | "topP" | "topK" | "minP";
  "whetstone.jobs.v1.Sft": "optimizer" | "batching";
  "whetstone.jobs.v1.Optimizer":
    "learningRate" | "beta1" | "beta2" | "weightDecay" | "gradientClip" | "warmupSteps" | "finalRateShare";
  "whetstone.jobs.v1.Batching": "miniBatches" | "epochs" | "microBatchTokens" | "wholeGroups" | "recomputeActivations";
  "whetstone.jobs.v1.PolicyGradient":
    | "normalizeByStd"
    | "clipLow"
    | "clipHigh"
    | "clipDual"
    | "entropyCoefficient"
    | "lossAggregation"
    | "optimizer"
    | "batching"
    | "advantage"
    | "loss"
    | "lossDenominator"
    | "gamma"
    | "gaeLambda"
    | "correction"
    | "groupingLevel";
  "whetstone.jobs.v1.KlPenalty": "coefficient" | "estimator" | "appliedTo";
  "whetstone.jobs.v1.Critic": "optimizer" | "valueClip" | "warmupSteps";
  "whetstone.jobs.v1.Correction": "level";
  "whetstone.jobs.v1.Overlong": "penalty";
  "whetstone.jobs.v1.Dpo": "variant" | "beta" | "labelSmoothing" | "optimizer" | "batching";
  "whetstone.jobs.v1.Loop":
    | "maxPolicyLag"
    | "checkpointEvery"
    | "checkpointsKept"
    | "deadlinePolicy"
    | "onMismatch"
    | "mismatchBound"
    | "mismatchShare";
  "whetstone.types.v1.RolloutLimits":
    | "maxSteps"
    | "maxPromptTokens"
    | "maxResponseTokens"
    | "enforcePromptLimitEachStep"
    | "episodeTimeout"
    | "retryLimit"
    | "gamma"
    | "overlongFilter"
    | "accumulateThinking"
    | "disableThinking";
  "whetstone.jobs.v1.PublishedWeights": "dtype" | "shardMib";
  "whetstone.jobs.v1.Sharding": "sequenceParallel" | "offload";
}
