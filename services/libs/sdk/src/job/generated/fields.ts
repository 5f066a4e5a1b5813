// SPDX-License-Identifier: Apache-2.0
// Generated from proto/whetstone/jobs/v1/jobs.proto by `make gen`. Do not edit.
import type { MessageRules } from "../settings-rules.ts";

export const MESSAGES: Readonly<Record<string, MessageRules>> = {
  JobSpec: {
    fields: {
      name: {
        type: "string",
        isRequired: true,
        pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        hint: "a DNS label of at most 52 characters: a-z, 0-9 and inner dashes",
      },
      model: { type: "message", message: "ModelSource", isRequired: true, hint: "a folder in Hugging Face layout" },
      agent: { type: "message", message: "AgentSpec" },
      environment: { type: "message", message: "EnvironmentSpec" },
      train: { type: "message", message: "Dataset" },
      validation: { type: "message", message: "Validation" },
      algorithm: { type: "message", message: "Algorithm" },
      loop: { type: "message", message: "Loop", isRequired: true },
      sampling: { type: "message", message: "Sampling" },
      limits: { type: "message", message: "RolloutLimits" },
      seed: { type: "uint64", range: { min: 0, max: 9007199254740991 } },
      timeout: { type: "duration", range: { min: 0, max: 31622400, isAbove: true } },
      module: { type: "message", message: "Module" },
      roles: { type: "message", message: "Role", isList: true },
      weight: { type: "uint32", range: { min: 1, max: 1000 } },
      weights: { type: "message", message: "PublishedWeights" },
      sharding: { type: "message", message: "Sharding" },
    },
  },
  ModelSource: {
    fields: {
      path: { type: "string", isRequired: true, hint: "a folder in Hugging Face layout" },
      lora: { type: "message", message: "Lora" },
    },
  },
  Lora: {
    fields: {
      rank: { type: "uint32", range: { min: 1, max: 65536 } },
      alpha: { type: "double", range: { min: 0, max: 1000000, isAbove: true } },
      targetModules: { type: "string", isList: true, hint: "names of linear layers" },
    },
  },
  AgentSpec: {
    fields: {
      kind: { type: "string", isRequired: true, hint: "the agent that acts" },
      args: { type: "mapping" },
      clientSampling: { type: "enum", prefix: "CLIENT_SAMPLING_", choices: ["context", "override", "refuse"] },
    },
  },
  EnvironmentSpec: {
    fields: {
      kind: { type: "string", isRequired: true, hint: "the environment it acts in" },
      args: { type: "mapping" },
      pool: {
        type: "string",
        pattern: "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        hint: "the name of a pool: a DNS label",
      },
    },
  },
  Dataset: {
    fields: {
      jsonl: { type: "string", hint: "the path of a file" },
      seeds: { type: "message", message: "SeedRange" },
      shuffleSeed: { type: "uint64" },
      take: { type: "uint64", range: { min: 1 } },
      repeat: { type: "uint32", range: { min: 1, max: 1000000 } },
    },
    oneofs: [{ members: ["jsonl", "seeds"], isNeeded: true }],
  },
  SeedRange: {
    fields: {
      first: { type: "uint64", range: { min: 0, max: 9007199254740991 } },
      count: { type: "uint64", isRequired: true, range: { min: 1 } },
    },
  },
  Validation: {
    fields: {
      dataset: { type: "message", message: "Dataset", isRequired: true },
      everySteps: { type: "uint32", range: { min: 0, max: 1000000 } },
      atStart: { type: "bool" },
      atEnd: { type: "bool" },
      variants: { type: "message", message: "ValidationVariant", isList: true },
      concurrency: { type: "uint32", range: { min: 1, max: 1000000 } },
    },
  },
  ValidationVariant: {
    fields: {
      name: { type: "string", isRequired: true, pattern: "^[a-z][a-z0-9]{0,30}$", hint: "a lower-case word" },
      sampling: { type: "message", message: "Sampling" },
      attempts: { type: "uint32", range: { min: 1, max: 10000 } },
    },
  },
  Sampling: {
    fields: {
      temperature: { type: "double", range: { min: 0, max: 2 } },
      topP: { type: "double", range: { min: 0.000001, max: 1 } },
      topK: { type: "uint32", range: { min: 0, max: 1000000 } },
      maxTokens: { type: "uint32", range: { min: 1, max: 10000000 } },
      minP: { type: "double", range: { min: 0, max: 1 } },
    },
  },
  Algorithm: {
    fields: {
      sft: { type: "message", message: "Sft" },
      policyGradient: { type: "message", message: "PolicyGradient" },
      dpo: { type: "message", message: "Dpo" },
    },
    oneofs: [{ members: ["sft", "policyGradient", "dpo"], isNeeded: true }],
    isChoice: true,
  },
  Sft: {
    fields: {
      optimizer: { type: "message", message: "Optimizer" },
      batching: { type: "message", message: "Batching" },
    },
  },
  Optimizer: {
    fields: {
      learningRate: { type: "double", range: { min: 0, max: 1, isAbove: true } },
      beta1: { type: "double", range: { min: 0, max: 0.999999999 } },
      beta2: { type: "double", range: { min: 0, max: 0.999999999 } },
      weightDecay: { type: "double", range: { min: 0, max: 100 } },
      gradientClip: { type: "double", range: { min: 0, max: 1000000000, isAbove: true } },
      warmupSteps: { type: "uint32", range: { min: 0, max: 1000000 } },
      finalRateShare: { type: "double", range: { min: 0, max: 1 } },
    },
  },
  Batching: {
    fields: {
      miniBatches: { type: "uint32", range: { min: 1, max: 4096 } },
      epochs: { type: "uint32", range: { min: 1, max: 1000 } },
      microBatchTokens: { type: "uint32", range: { min: 16, max: 100000000 } },
      wholeGroups: { type: "bool" },
      recomputeActivations: { type: "bool" },
    },
  },
  PolicyGradient: {
    fields: {
      groupSize: { type: "uint32", isRequired: true, range: { min: 1, max: 1024 }, hint: "episodes of one task" },
      normalizeByStd: { type: "bool" },
      clipLow: { type: "double", range: { min: 0, max: 1 } },
      clipHigh: { type: "double", range: { min: 0, max: 100 } },
      clipDual: { type: "double", range: { min: 0, max: 1000000 } },
      entropyCoefficient: { type: "double", range: { min: 0, max: 10 } },
      lossAggregation: {
        type: "enum",
        prefix: "LOSS_AGGREGATION_",
        choices: ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"],
      },
      optimizer: { type: "message", message: "Optimizer" },
      batching: { type: "message", message: "Batching" },
      lossScaleFactor: { type: "double", range: { min: 0, max: 1000000000, isAbove: true } },
      advantage: {
        type: "enum",
        prefix: "ADVANTAGE_ESTIMATOR_",
        choices: [
          "grpo",
          "reinforce",
          "rloo",
          "reinforce++-baseline",
          "reinforce++",
          "opo",
          "remax",
          "gae",
          "gpg",
          "grpo-pass-at-k",
          "none",
          "raft",
          "custom",
        ],
      },
      loss: {
        type: "enum",
        prefix: "POLICY_LOSS_",
        choices: ["clipped", "gspo", "cispo", "sapo", "reinforce", "gmpo", "dppo-tv", "dppo-kl", "dro", "custom"],
      },
      lossDenominator: { type: "enum", prefix: "LOSS_DENOMINATOR_", choices: ["batch", "signal"] },
      gamma: { type: "double", range: { min: 0, max: 1, isAbove: true } },
      kl: { type: "message", message: "KlPenalty" },
      gaeLambda: { type: "double", range: { min: 0, max: 1 } },
      critic: { type: "message", message: "Critic" },
      correction: { type: "message", message: "Correction" },
      droBeta: { type: "double", range: { min: 0, max: 1000000, isAbove: true } },
      dynamicSampling: { type: "message", message: "DynamicSampling" },
      overlong: { type: "message", message: "Overlong" },
      groupingLevel: { type: "enum", prefix: "GROUPING_LEVEL_", choices: ["trajectory", "step"] },
      rewardThreshold: { type: "double", range: { min: -1000000000, max: 1000000000 } },
      module: { type: "string" },
      moduleDigest: { type: "string", pattern: "^([0-9a-f]{64})?$", hint: "a SHA-256 in lower-case hex" },
    },
  },
  KlPenalty: {
    fields: {
      coefficient: { type: "double", range: { min: 0, max: 1000 } },
      estimator: { type: "enum", prefix: "KL_ESTIMATOR_", choices: ["k1", "abs", "k2", "k3", "k3+"] },
      appliedTo: { type: "enum", prefix: "KL_PLACE_", choices: ["loss", "reward", "advantage"] },
      target: { type: "double", range: { min: 0, max: 1000, isAbove: true } },
      horizon: { type: "double", range: { min: 0, max: 1000000000, isAbove: true } },
      model: { type: "string", hint: "a folder in Hugging Face layout" },
      discount: { type: "double", range: { min: 0, max: 1 } },
      clip: { type: "double", range: { min: 0, max: 1000000, isAbove: true } },
      engine: { type: "string", pattern: "^https?://[^/?#]+", hint: "an http or https URL" },
    },
  },
  Critic: {
    fields: {
      model: { type: "string", hint: "a folder in Hugging Face layout" },
      optimizer: { type: "message", message: "Optimizer" },
      valueClip: { type: "double", range: { min: 0, max: 1000000 } },
      warmupSteps: { type: "uint32", range: { min: 0, max: 1000000 } },
    },
  },
  Correction: {
    fields: {
      level: { type: "enum", prefix: "CORRECTION_LEVEL_", choices: ["token", "sequence", "unweighted", "off"] },
      cap: { type: "double", range: { min: 0, max: 1000000000, isAbove: true } },
      floor: { type: "double", range: { min: 0, max: 1000000000, isAbove: true } },
      normalize: { type: "bool" },
      sameVersion: { type: "bool" },
      reject: { type: "message", message: "Rejection", isList: true },
    },
  },
  Rejection: {
    fields: {
      statistic: {
        type: "enum",
        prefix: "REJECTION_STATISTIC_",
        choices: [
          "token-k1",
          "token-k2",
          "token-k3",
          "seq-sum-k1",
          "seq-sum-k2",
          "seq-sum-k3",
          "seq-mean-k1",
          "seq-mean-k2",
          "seq-mean-k3",
          "seq-max-k2",
          "seq-max-k3",
        ],
        isRequired: true,
        hint: "what is bounded, such as seq-mean-k1",
      },
      low: { type: "double", range: { min: 0, max: 1000000000, isAbove: true } },
      high: {
        type: "double",
        isRequired: true,
        range: { min: 0, max: 1000000000, isAbove: true },
        hint: "what the statistic is at most",
      },
    },
  },
  DynamicSampling: { fields: { maxReplacements: { type: "uint32", range: { min: 1, max: 32768 } } } },
  Overlong: {
    fields: {
      maxTokens: { type: "uint32", isRequired: true, hint: "the length that costs the whole penalty, in tokens" },
      bufferTokens: { type: "uint32", isRequired: true, hint: "tokens before maxTokens from which on length costs" },
      penalty: { type: "double", range: { min: 0, max: 1000000, isAbove: true } },
    },
  },
  Dpo: {
    fields: {
      variant: { type: "enum", prefix: "DPO_VARIANT_", choices: ["dpo", "ipo"] },
      beta: { type: "double", range: { min: 0, max: 1000, isAbove: true } },
      labelSmoothing: { type: "double", range: { min: 0, max: 0.5 } },
      reference: { type: "string", hint: "a folder in Hugging Face layout" },
      optimizer: { type: "message", message: "Optimizer" },
      batching: { type: "message", message: "Batching" },
    },
  },
  Loop: {
    fields: {
      steps: { type: "uint32", isRequired: true, range: { min: 0, max: 1000000 }, hint: "0 only evaluates" },
      batchGroups: { type: "uint32", range: { min: 0, max: 32768 } },
      maxPolicyLag: { type: "uint32", range: { min: 0, max: 8 } },
      checkpointEvery: { type: "uint32", range: { min: 1, max: 1000000 } },
      checkpointsKept: { type: "uint32", range: { min: 1, max: 10000 } },
      groupPolicy: { type: "message", message: "GroupPolicy" },
      deadlinePolicy: { type: "enum", prefix: "DEADLINE_POLICY_", choices: ["void", "score", "mask"] },
      onMismatch: { type: "enum", prefix: "MISMATCH_POLICY_", choices: ["warn", "stop"] },
      mismatchBound: { type: "double", range: { min: 0.000001, max: 1000 } },
      mismatchShare: { type: "double", range: { min: 0, max: 1, isAbove: true } },
    },
  },
  GroupPolicy: {
    fields: {
      complete: { type: "message", message: "Complete" },
      partial: { type: "message", message: "Partial" },
      drop: { type: "message", message: "Drop" },
    },
    oneofs: [{ members: ["complete", "partial", "drop"], isNeeded: false }],
    isChoice: true,
  },
  Complete: { fields: {} },
  Partial: { fields: { minSize: { type: "uint32", isRequired: true, range: { min: 1 } } } },
  Drop: { fields: {} },
  RolloutLimits: {
    fields: {
      maxSteps: { type: "uint32", range: { min: 1, max: 100000 } },
      maxPromptTokens: { type: "uint32", range: { min: 1, max: 10000000 } },
      maxResponseTokens: { type: "uint32", range: { min: 1, max: 10000000 } },
      enforcePromptLimitEachStep: { type: "bool" },
      episodeTimeout: { type: "duration", range: { min: 0.001, max: 86400 } },
      retryLimit: { type: "uint32", range: { min: 0, max: 100 } },
      gamma: { type: "double", range: { min: 0, max: 1 } },
      overlongFilter: { type: "bool" },
      accumulateThinking: { type: "bool" },
      disableThinking: { type: "bool" },
      phaseTimeouts: { type: "message", message: "PhaseTimeouts" },
    },
  },
  PhaseTimeouts: {
    fields: {
      reset: { type: "duration", range: { min: 0.001, max: 86400 } },
      model: { type: "duration", range: { min: 0.001, max: 86400 } },
      step: { type: "duration", range: { min: 0.001, max: 86400 } },
      reward: { type: "duration", range: { min: 0.001, max: 86400 } },
      close: { type: "duration", range: { min: 0.001, max: 86400 } },
    },
  },
  Module: {
    fields: {
      digest: { type: "string", isRequired: true, pattern: "^[0-9a-f]{64}$", hint: "a SHA-256 in lower-case hex" },
      code: { type: "bytes" },
      sandbox: { type: "message", message: "ModuleSandbox" },
    },
  },
  ModuleSandbox: {
    fields: {
      backend: { type: "enum", prefix: "SANDBOX_BACKEND_", choices: ["process", "none"] },
      network: { type: "string", isList: true, hint: "host:port" },
    },
  },
  Role: {
    fields: {
      name: {
        type: "string",
        isRequired: true,
        pattern: "^[A-Za-z0-9][-_.A-Za-z0-9]{0,63}$",
        hint: "1 to 64 characters: letters, digits, - _ .",
      },
      advantage: {
        type: "enum",
        prefix: "ADVANTAGE_ESTIMATOR_",
        choices: [
          "grpo",
          "reinforce",
          "rloo",
          "reinforce++-baseline",
          "reinforce++",
          "opo",
          "remax",
          "gae",
          "gpg",
          "grpo-pass-at-k",
          "none",
          "raft",
          "custom",
        ],
      },
      frozen: { type: "bool" },
      model: { type: "message", message: "ExternalModel" },
      loss: {
        type: "enum",
        prefix: "POLICY_LOSS_",
        choices: ["clipped", "gspo", "cispo", "sapo", "reinforce", "gmpo", "dppo-tv", "dppo-kl", "dro", "custom"],
      },
    },
  },
  ExternalModel: {
    fields: {
      baseUrl: { type: "string", isRequired: true, pattern: "^https?://[^/?#]+", hint: "an http or https URL" },
      model: { type: "string", isRequired: true, hint: "the model's name there" },
      apiKeyEnv: {
        type: "string",
        pattern: "^[A-Z][A-Z0-9_]*_API_KEY$",
        hint: "the name of an environment variable like JUDGE_API_KEY, not a key",
      },
    },
  },
  PublishedWeights: {
    fields: {
      dtype: { type: "enum", prefix: "WEIGHTS_DTYPE_", choices: ["float32", "bfloat16"] },
      shardMib: { type: "uint32", range: { min: 1, max: 65536 } },
      transport: { type: "message", message: "WeightTransport" },
    },
  },
  WeightTransport: {
    fields: {
      folder: { type: "message", message: "Folder" },
      stream: { type: "message", message: "Stream" },
      objectStore: { type: "message", message: "ObjectStore" },
      broadcast: { type: "message", message: "Broadcast" },
    },
    oneofs: [{ members: ["folder", "stream", "objectStore", "broadcast"], isNeeded: false }],
    isChoice: true,
  },
  Folder: { fields: {} },
  Stream: { fields: {} },
  ObjectStore: { fields: {} },
  Broadcast: { fields: {} },
  Sharding: { fields: { sequenceParallel: { type: "uint32", range: { min: 1, max: 64 } }, offload: { type: "bool" } } },
};
