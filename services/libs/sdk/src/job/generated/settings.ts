// SPDX-License-Identifier: Apache-2.0
// Generated from proto/whetstone/jobs/v1/jobs.proto by `make gen`. Do not edit.
import type { Duration } from "../duration.ts";

/** How token losses become one number. Names and formulas: verl's core_algos.agg_loss. */
export type LossAggregation =
  "token-mean" | "token-sum" | "seq-mean-token-sum" | "seq-mean-token-sum-norm" | "seq-mean-token-mean";

/** How a role's advantages are made from the rewards of its trajectories; a group is all trajectories of one role at one task. Formulas: docs/algorithms.md. */
export type AdvantageEstimator =
  | "grpo"
  | "reinforce"
  | "rloo"
  | "reinforce++-baseline"
  | "reinforce++"
  | "opo"
  | "remax"
  | "gae"
  | "gpg"
  | "grpo-pass-at-k"
  | "none"
  | "raft"
  | "custom";

/** The loss of one trained token. A: its advantage; ratio: current to old policy. Formulas and sources: docs/algorithms.md. */
export type PolicyLoss =
  "clipped" | "gspo" | "cispo" | "sapo" | "reinforce" | "gmpo" | "dppo-tv" | "dppo-kl" | "dro" | "custom";

/** What the denominators of a loss aggregation count. */
export type LossDenominator = "batch" | "signal";

/** What the members of a group are. */
export type GroupingLevel = "trajectory" | "step";

/** An estimate of the divergence from the reference at one token. l: log-probability under the trained policy, f: under the reference. Source: Schulman, "Approximating KL divergence", 2020. */
export type KlEstimator = "k1" | "abs" | "k2" | "k3" | "k3+";

/** What the divergence from the reference is added to. */
export type KlPlace = "loss" | "reward" | "advantage";

/** What an importance weight is of. */
export type CorrectionLevel = "token" | "sequence" | "unweighted" | "off";

/** How far off a token, or a sequence as the sum, mean or maximum of its tokens, was sampled. r: log-probability under the policy that enters the step minus that of sampling. K1: exp(-r), bounded on both sides (of a sum the product, of a mean the geometric mean). K2: r^2 / 2, K3: exp(r) - 1 - r, both bounded above. */
export type RejectionStatistic =
  | "token-k1"
  | "token-k2"
  | "token-k3"
  | "seq-sum-k1"
  | "seq-sum-k2"
  | "seq-sum-k3"
  | "seq-mean-k1"
  | "seq-mean-k2"
  | "seq-mean-k3"
  | "seq-max-k2"
  | "seq-max-k3";

/** The loss of a pair. h: log-probability of what was chosen minus that under the reference, less the same of what was rejected. Formulas: docs/algorithms.md. */
export type DpoVariant = "dpo" | "ipo";

/** What becomes of an episode that ran into its deadline. */
export type DeadlinePolicy = "void" | "score" | "mask";

/** What the trainer does when a sampled token's log-probability, computed again under the version that sampled it, is further off than the bound. */
export type MismatchPolicy = "warn" | "stop";

/** Where a module's processes run. */
export type SandboxBackend = "process" | "none";

/** The type of published weights. What the trainer keeps for itself stays float32. */
export type WeightsDtype = "float32" | "bfloat16";

/** All a user says. Immutable after submission except where UpdateJob says otherwise. */
export interface JobSettings {
  /** The sample, train, sync loop. */
  readonly loop: LoopSettings;
  /** How tokens are drawn. Writer: job. With topP or minP a token is drawn from 512 tokens at most, unless topK says how many: each trained token travels with those that it was drawn from, over which the trainer takes its probability. */
  readonly sampling?: SamplingSettings | undefined;
  /** The budgets of one episode. Writer: job. Defaults follow rLLM's AgentExecutionEngine where sane. */
  readonly limits?: LimitSettings | undefined;
  /** Every random choice of the job follows from it. From 0 to 9,007,199,254,740,991. Default 0. */
  readonly seed?: number | bigint | undefined;
  /** The whole job's deadline, at most 366 days. Absent: none. Above 0 s and at most 31,622,400 s. */
  readonly timeout?: Duration | undefined;
  /** Roles that are not as the job's default: own estimator, own loss, frozen, or another model. Names are unique; an agent and a demonstration play one role, "agent". At most 16 members. */
  readonly roles?: readonly RoleSettings[] | undefined;
  /** Share of an orchestrator's slots, and of the engines, beside other jobs. From 1 to 1000. Default 1. */
  readonly weight?: number | undefined;
  /** How versions are published, and how engines come by them. Version 0 is model.path, which each of them reads by itself. */
  readonly weights?: PublishedWeightsSettings | undefined;
  /** How a trainer with several ranks holds the job's models and computes their passes. Anything but the defaults needs a trainer with the backend verl. */
  readonly sharding?: ShardingSettings | undefined;
}

/** A low-rank adapter beside linear layers, trained in place of the model's weights: W + alpha / rank * B * A, with B zero at first. Source: Hu et al., arXiv 2106.09685; names and initialisation are those of the package peft. */
export interface LoraSettings {
  /** Rows of A and columns of B: how much can be learned. At most the smallest dimension of the layers. From 1 to 65,536. Default 8. */
  readonly rank?: number | undefined;
  /** What the adapter weighs, times rank. Absent: rank, so that the adapter is added as it is. Above 0 and at most 1,000,000. */
  readonly alpha?: number | undefined;
  /** Linear layers that get one, by the last part of their name ("q_proj") or more of it. Empty: all that the model has below its head. At most 1024 members. */
  readonly targetModules?: readonly string[] | undefined;
}

/** Scoring without training. */
export interface ValidationSettings {
  /** Also after every n-th step; 0: only as the two flags below say. From 0 to 1,000,000. Default 0. */
  readonly everySteps?: number | undefined;
  /** Before the first step. Default true. */
  readonly atStart?: boolean | undefined;
  /** After the last step. Default true. */
  readonly atEnd?: boolean | undefined;
  /** Empty: one, "sampled", with the job's own sampling. At most 16 members. */
  readonly variants?: readonly VariantSettings[] | undefined;
  /** Most validation episodes dispatched at a time. Absent: all, and the orchestrators' slots bound them. From 1 to 1,000,000. */
  readonly concurrency?: number | undefined;
}

/** One way of drawing validation answers. */
export interface VariantSettings {
  /** Unique in the job: "greedy". A lower-case word. */
  readonly name: string;
  /** Absent: the job's own. */
  readonly sampling?: SamplingSettings | undefined;
  /** Episodes a task, for pass@k. From 1 to 10,000. Default 1. */
  readonly attempts?: number | undefined;
}

/** How tokens are drawn. Writer: job. With topP or minP a token is drawn from 512 tokens at most, unless topK says how many: each trained token travels with those that it was drawn from, over which the trainer takes its probability. */
export interface SamplingSettings {
  /** At least 0.01, or 0 (greedy; not to train on). From 0 to 2. Default 1. */
  readonly temperature?: number | undefined;
  /** Only the likeliest tokens that have this probability together; 1 is off. From 0.000001 to 1. Default 1. */
  readonly topP?: number | undefined;
  /** Only so many of the likeliest tokens; 0 is off. From 0 to 1,000,000. Default 0. */
  readonly topK?: number | undefined;
  /** Most tokens of one model call. Absent: what the limits leave. From 1 to 10,000,000. */
  readonly maxTokens?: number | undefined;
  /** Only tokens with at least so much of the likeliest one's probability; 0 is off. From 0 to 1. Default 0. */
  readonly minP?: number | undefined;
}

/** Supervised fine-tuning: mean negative log-likelihood of the assistant's tokens over the global batch. */
export type SftSettings = OptimizerSettings & BatchingSettings;

/** AdamW. Source: Loshchilov and Hutter, arXiv 1711.05101. */
export interface OptimizerSettings {
  /** How far one step goes. Above 0 and at most 1. Default 1e-5. */
  readonly learningRate?: number | undefined;
  /** Decay of the mean of the gradients. From 0 to 0.999999999. Default 0.9. */
  readonly beta1?: number | undefined;
  /** Decay of the mean of their squares. From 0 to 0.999999999. Default 0.95. */
  readonly beta2?: number | undefined;
  /** Share of itself that a weight loses at a step, times learningRate. From 0 to 100. Default 0. */
  readonly weightDecay?: number | undefined;
  /** Norm that the gradient is clipped to. Above 0 and at most 1,000,000,000. Default 1. */
  readonly gradientClip?: number | undefined;
  /** Batches over which the rate grows from 0. From 0 to 1,000,000. Default 0. */
  readonly warmupSteps?: number | undefined;
  /** What the rate falls to, linearly, at the job's last step, as a share of learningRate; 1 is constant. From 0 to 1. Default 1. */
  readonly finalRateShare?: number | undefined;
}

/** How a batch is cut. None of it changes a gradient (I10), except miniBatches, epochs and wholeGroups. */
export interface BatchingSettings {
  /** Optimizer steps a pass over the batch; trajectories are shuffled among them. From 1 to 4096. Default 1. */
  readonly miniBatches?: number | undefined;
  /** Passes over the batch. From 1 to 1000. Default 1. */
  readonly epochs?: number | undefined;
  /** Most tokens of one forward pass, padding included. From 16 to 100,000,000. Default 16384. */
  readonly microBatchTokens?: number | undefined;
  /** Groups are shuffled among the optimizer steps, and all of a group is in one of them, as verl cuts a batch: what its members share, the prompt above all, is computed once a pass. A batch of fewer groups than miniBatches takes fewer steps. Default false. */
  readonly wholeGroups?: boolean | undefined;
  /** The pass back computes the inside of each layer once more instead of keeping it: of long sequences a fraction of the memory, for a third more time. Only of models that Whetstone's own transformer computes. Without it, a single sequence that does not fit into memory is computed so from then on. Default false. */
  readonly recomputeActivations?: boolean | undefined;
}

/** Policy gradient: an advantage estimator and a policy loss, each by name. Recipes of published algorithms (PPO, GRPO, Dr.GRPO, DAPO, GSPO, CISPO, RLOO, REINFORCE++, ReMax, OPO, SAPO): docs/algorithms.md. */
export interface PolicyGradientSettings extends OptimizerSettings, BatchingSettings {
  /** Episodes a task. Times batchGroups, a batch has at most 32,768 episodes, and its manifest must fit into 8 MB. From 1 to 1024. */
  readonly groupSize: number;
  /** Divide the advantage by the group's standard deviation (ddof 1, + 1e-6). False: Dr.GRPO's advantage. Default true. */
  readonly normalizeByStd?: boolean | undefined;
  /** The ratio is clipped to [1 - clipLow, 1 + clipHigh]. From 0 to 1. Default 0.2. */
  readonly clipLow?: number | undefined;
  /** See clipLow. From 0 to 100. Default 0.2. */
  readonly clipHigh?: number | undefined;
  /** Bound of the loss of a negative advantage (dual clip), above 1, or 0 for off. From 0 to 1,000,000. Default 3. */
  readonly clipDual?: number | undefined;
  /** Weight of the entropy bonus. From 0 to 10. Default 0. */
  readonly entropyCoefficient?: number | undefined;
  /** How token losses become one number. Default "token-mean". */
  readonly lossAggregation?: LossAggregation | undefined;
  /** Only for seq-mean-token-sum-norm. Absent: the batch's longest row. Above 0 and at most 1,000,000,000. */
  readonly lossScaleFactor?: number | undefined;
  /** How advantages are made from rewards. Roles may have another: roles[].advantage. Default "grpo". */
  readonly advantage?: AdvantageEstimator | undefined;
  /** What a token's advantage does to its probability. Roles may have another: roles[].loss. Default "clipped". */
  readonly loss?: PolicyLoss | undefined;
  /** What lossAggregation divides by. Default "batch". */
  readonly lossDenominator?: LossDenominator | undefined;
  /** What a reward one token later is worth. Only for advantages reinforce++, gae and custom. Above 0 and at most 1. Default 1. */
  readonly gamma?: number | undefined;
  /** Absent: there is no reference. */
  readonly kl?: KlPenaltySettings | undefined;
  /** How far advantage gae looks beyond the next token's value: at 1 all rewards to come count, at 0 none but the next. From 0 to 1. Default 1. */
  readonly gaeLambda?: number | undefined;
  /** Only for advantage gae, which needs it, or a custom one that has returns. */
  readonly critic?: CriticSettings | undefined;
  /** For what the policy that enters a step did not sample itself. */
  readonly correction?: CorrectionSettings | undefined;
  /** What the squared log-ratio weighs in the loss dro, which needs it. Above 0 and at most 1,000,000. */
  readonly droBeta?: number | undefined;
  /** Absent: groups without a signal are trained like others, with advantage 0. */
  readonly dynamicSampling?: DynamicSamplingSettings | undefined;
  /** Absent: length costs nothing. */
  readonly overlong?: OverlongSettings | undefined;
  /** STEP with advantages that read one reward a member only: not GAE and ReMax. Default "trajectory". */
  readonly groupingLevel?: GroupingLevel | undefined;
  /** What a reward has to be above for advantage raft, the only one that reads it. Absent: 0. From -1,000,000,000 to 1,000,000,000. */
  readonly rewardThreshold?: number | undefined;
  /** Python code for advantage or loss custom: the file's whole text, at most 64 KiB. In a job file and in code: its path. docs/algorithms.md says what it defines. */
  readonly module?: string | undefined;
  /** SHA-256 of the code, lower-case hex. `whet train` puts it in when `module` is a path. A SHA-256 in lower-case hex. */
  readonly moduleDigest?: string | undefined;
}

/** Keeps the policy near a reference, which is never trained, or brings it nearer to a teacher. Formulas: docs/algorithms.md. */
export interface KlPenaltySettings {
  /** What it weighs; 0: there is no reference. With target, where it starts. From 0 to 1000. Default 0.001. */
  readonly coefficient?: number | undefined;
  /** An estimate of the divergence from the reference at one token. l: log-probability under the trained policy, f: under the reference. Source: Schulman, "Approximating KL divergence", 2020. Default "k3". */
  readonly estimator?: KlEstimator | undefined;
  /** What the divergence from the reference is added to. Default "loss". */
  readonly appliedTo?: KlPlace | undefined;
  /** The divergence, in nats a token, that the coefficient is adapted towards after each step. Absent: it stays. Above 0 and at most 1000. */
  readonly target?: number | undefined;
  /** Trajectories in which the coefficient changes by a fifth at most. Absent: 10,000. Source: arXiv 1909.08593. Above 0 and at most 1,000,000,000. */
  readonly horizon?: number | undefined;
  /** A folder in Hugging Face layout that the trainer can read, with the job's own vocabulary. Absent: model.path, the weights that the job starts from. A folder in Hugging Face layout. */
  readonly model?: string | undefined;
  /** In the advantage: what the divergence of the token after it counts for a token. Absent: 0, each token has its own. From 0 to 1. */
  readonly discount?: number | undefined;
  /** In the advantage: a token's divergence is no further from 0 than so, in nats. Absent: as it is. Above 0 and at most 1,000,000. */
  readonly clip?: number | undefined;
  /** In place of model: an engine with the job's own vocabulary, which the trainer asks for the log-probabilities of given ids (`prompt_logprobs` of IEP/1), at temperature 1. Up to and without "/inference". Empty: none. An http or https URL. */
  readonly engine?: string | undefined;
}

/** The value function of advantage gae: a model of its own with a head that makes one number of a token's hidden state. Mini-batches and epochs are the policy's. */
export interface CriticSettings {
  /** A folder in Hugging Face layout that the trainer can read, with the job's own vocabulary: what it starts from; the head starts at 0. Absent: model.path, the weights that the job starts from. A folder in Hugging Face layout. */
  readonly model?: string | undefined;
  /** AdamW. Source: Loshchilov and Hutter, arXiv 1711.05101. */
  readonly optimizer?: OptimizerSettings | undefined;
  /** A value is trained no further than so from what it was at the batch's start. 0: off. From 0 to 1,000,000. Default 0.5. */
  readonly valueClip?: number | undefined;
  /** Steps at the job's start in which only the critic learns. From 0 to 1,000,000. Default 0. */
  readonly warmupSteps?: number | undefined;
}

/** Rollout correction: tokens that another policy sampled than the one that enters the step are clipped around the latter and weighed by what lies between the two (decoupled PPO, arXiv 2505.24298; verl's rollout correction). */
export interface CorrectionSettings {
  /** What an importance weight is of. Default "token". */
  readonly level?: CorrectionLevel | undefined;
  /** A weight is at most this. Absent: 2. Above 0 and at most 1,000,000,000. */
  readonly cap?: number | undefined;
  /** With it weights below floor and above cap are 0 (IcePop, the mask of decoupled PPO): such a token has no gradient but counts in the denominators. Absent: there is no floor, and weights above cap are cap. Above 0 and at most 1,000,000,000. */
  readonly floor?: number | undefined;
  /** Divide the weights by their mean over the batch. Absent: false. */
  readonly normalize?: boolean | undefined;
  /** Also for tokens of the policy that enters the step: engine and trainer do not compute quite the same. Absent: false. */
  readonly sameVersion?: boolean | undefined;
  /** A token has to pass all of them. At most 16 members. */
  readonly reject?: readonly RejectionSettings[] | undefined;
}

/** Tokens whose statistic is out of bounds are not trained: no sum and no denominator sees them. */
export interface RejectionSettings {
  /** How far off a token, or a sequence as the sum, mean or maximum of its tokens, was sampled. r: log-probability under the policy that enters the step minus that of sampling. K1: exp(-r), bounded on both sides (of a sum the product, of a mean the geometric mean). K2: r^2 / 2, K3: exp(r) - 1 - r, both bounded above. */
  readonly statistic: RejectionStatistic;
  /** Only for K1. Absent: 1 / high. Above 0 and at most 1,000,000,000. */
  readonly low?: number | undefined;
  /** Above 0 and at most 1,000,000,000. */
  readonly high: number;
}

/** A group whose members all have the same reward has no signal: it is voided, and a group of the dataset's next task is dispatched in its place, until the batch has batchGroups groups with a signal. Rewards are those of the episodes. Source: DAPO, arXiv 2503.14476. */
export interface DynamicSamplingSettings {
  /** Most replacements a batch; then it goes on with the groups that have a signal. Absent: as many as batchGroups. From 1 to 32,768. */
  readonly maxReplacements?: number | undefined;
}

/** Lowers the reward of a trajectory that comes near the longest length, in place of cutting it off without a word. Length: its trained tokens. Source: DAPO, arXiv 2503.14476. */
export interface OverlongSettings {
  /** The length that costs the whole penalty. */
  readonly maxTokens: number;
  /** So many tokens before, it begins to cost. */
  readonly bufferTokens: number;
  /** What maxTokens costs, in units of the reward. In between and beyond it grows evenly. Above 0 and at most 1,000,000. Default 1. */
  readonly penalty?: number | undefined;
}

/** Direct preference optimization: of the two conversations of a task, what was chosen becomes likelier than what was rejected. The loss is the mean over the pairs of the mini-batch. */
export interface DpoSettings {
  /** The loss of a pair. h: log-probability of what was chosen minus that under the reference, less the same of what was rejected. Formulas: docs/algorithms.md. Default "dpo". */
  readonly variant?: DpoVariant | undefined;
  /** How near to the reference the policy stays: the larger, the nearer. Above 0 and at most 1000. Default 0.1. */
  readonly beta?: number | undefined;
  /** Share of the pairs that are taken to be the wrong way round. arXiv 2305.18290, section 4 of Mitchell's note on cDPO. From 0 to 0.5. Default 0. */
  readonly labelSmoothing?: number | undefined;
  /** A folder in Hugging Face layout that the trainer can read, with the job's own vocabulary: what log-probabilities are compared with, never trained. Absent: model.path, the weights that the job starts from. A folder in Hugging Face layout. */
  readonly reference?: string | undefined;
  /** AdamW. Source: Loshchilov and Hutter, arXiv 1711.05101. */
  readonly optimizer?: OptimizerSettings | undefined;
  /** How a batch is cut. None of it changes a gradient (I10), except miniBatches, epochs and wholeGroups. */
  readonly batching?: BatchingSettings | undefined;
}

/** The sample, train, sync loop. */
export interface LoopSettings {
  /** Batches to train on; 0 only evaluates. From 0 to 1,000,000. */
  readonly steps: number;
  /** Groups a batch, at least 1 unless steps is 0. From 0 to 32,768. */
  readonly batchGroups?: number | undefined;
  /** How many versions older than the one being trained a token may be (I3): 0 is synchronous, 1 samples the next batch while this one trains. From 0 to 8. Default 0. */
  readonly maxPolicyLag?: number | undefined;
  /** A checkpoint every n steps, and after the last. From 1 to 1,000,000. Default 1. */
  readonly checkpointEvery?: number | undefined;
  /** Checkpoints kept; weights older than the lag needs go with them. From 1 to 10,000. Default 2. */
  readonly checkpointsKept?: number | undefined;
  /** Absent: partial with minSize 2 (1 for SFT). With DPO always absent: a pair is trained whole or not at all. */
  readonly groupPolicy?: GroupPolicy | undefined;
  /** What becomes of an episode that ran into its deadline. Default "void". */
  readonly deadlinePolicy?: DeadlinePolicy | undefined;
  /** What the trainer does when a sampled token's log-probability, computed again under the version that sampled it, is further off than the bound. Default "stop". */
  readonly onMismatch?: MismatchPolicy | undefined;
  /** In nats. From 0.000001 to 1000. Default 1. */
  readonly mismatchBound?: number | undefined;
  /** Share of a batch's rows whose log-probabilities are computed again, chosen anew each step, at least 32 of each version; 1: all. Rows of the present version that are trained in one mini-batch are compared whatever it is. Such rows of older versions are compared with the present one: at least 256 of their tokens are computed again, and each row that is further off than mismatchBound. Above 0 and at most 1. Default 0.1. */
  readonly mismatchShare?: number | undefined;
}

/** What happens to a group some of whose members were voided. */
export type GroupPolicy = "complete" | { readonly partial: PartialSettings } | "drop";

/** The members that exist are trained if there are enough of them. */
export interface PartialSettings {
  /** 1 to the group's size, 1 with SFT; not with DPO. An advantage that compares members needs 2. At least 1. */
  readonly minSize: number;
}

/** The budgets of one episode. Writer: job. Defaults follow rLLM's AgentExecutionEngine where sane. */
export interface LimitSettings {
  /** Most environment steps. From 1 to 100,000. Default 5. */
  readonly maxSteps?: number | undefined;
  /** Most tokens of the first prompt, or of every prompt with `enforcePromptLimitEachStep`. From 1 to 10,000,000. Default 1024. */
  readonly maxPromptTokens?: number | undefined;
  /** Most tokens after the first prompt, sampled and observed together (each call's own sampled tokens with `enforcePromptLimitEachStep`). From 1 to 10,000,000. Default 8192. */
  readonly maxResponseTokens?: number | undefined;
  /** Each step has its own prompt limit and full response budget, for agents that do not keep their history. Default false. */
  readonly enforcePromptLimitEachStep?: boolean | undefined;
  /** The one deadline of an episode, through every hop, from reset to reward. From 0.001 s to 86,400 s. Default 300s. */
  readonly episodeTimeout?: Duration | undefined;
  /** How often an episode whose environment, infrastructure or grader failed is played again. From 0 to 100. Default 2. */
  readonly retryLimit?: number | undefined;
  /** Discount of the Monte-Carlo returns. From 0 to 1. Default 1. */
  readonly gamma?: number | undefined;
  /** Episodes that end by MAX_TURNS, MAX_RESPONSE_LENGTH or DEADLINE are masked in the loss. Default false. */
  readonly overlongFilter?: boolean | undefined;
  /** Thinking (<think>…</think>) of earlier answers stays in later prompts. False removes it, which starts a new training row at each turn. Default true. */
  readonly accumulateThinking?: boolean | undefined;
  /** Asks the chat template for answers without thinking (`enable_thinking` false). Default false. */
  readonly disableThinking?: boolean | undefined;
  /** Bounds of single phases inside the episode's one deadline. A phase that passes its bound fails with the phase's own failure class and may be retried. Absent fields: only the deadline bounds the phase (close: 5 s). */
  readonly phaseTimeouts?: PhaseTimeoutSettings | undefined;
}

/** Bounds of single phases inside the episode's one deadline. A phase that passes its bound fails with the phase's own failure class and may be retried. Absent fields: only the deadline bounds the phase (close: 5 s). */
export interface PhaseTimeoutSettings {
  /** From 0.001 s to 86,400 s. */
  readonly reset?: Duration | undefined;
  /** From 0.001 s to 86,400 s. */
  readonly model?: Duration | undefined;
  /** From 0.001 s to 86,400 s. */
  readonly step?: Duration | undefined;
  /** From 0.001 s to 86,400 s. */
  readonly reward?: Duration | undefined;
  /** From 0.001 s to 86,400 s. */
  readonly close?: Duration | undefined;
}

/** How a module's processes are kept from the machine that they run on, in orchestrators and in env-runners. */
export interface ModuleSandboxSettings {
  /** Where a module's processes run. */
  readonly backend?: SandboxBackend | undefined;
  /** What it may connect to beside the gateway, "host:port": through a proxy that HTTP_PROXY and HTTPS_PROXY name, and Node's fetch uses. The models of the job's roles need not be named. Of no use without a sandbox. At most 64 members. */
  readonly network?: readonly string[] | undefined;
}

/** One role of a multi-agent episode. Writer: job. */
export interface RoleSettings {
  /** As trajectories are named: "solver". It is part of metric names. 1 to 64 characters: letters, digits, - _ . */
  readonly name: string;
  /** Absent: the job's own. */
  readonly advantage?: AdvantageEstimator | undefined;
  /** Its tokens are context, never trained. Always so with `model`. */
  readonly frozen?: boolean | undefined;
  /** Who answers in this role. Absent: the job's policy. */
  readonly model?: ExternalModelSettings | undefined;
  /** What the advantages of its tokens do to their probabilities. Absent: the job's own. */
  readonly loss?: PolicyLoss | undefined;
}

/** A model that is not the job's policy: any OpenAI-compatible server. */
export interface ExternalModelSettings {
  /** Up to and without "/v1". An http or https URL. */
  readonly baseUrl: string;
  /** The model's name. The model's name there. */
  readonly model: string;
  /** Name of the orchestrator's environment variable that holds the key: a job must not be able to read any other secret of it. Empty: no key. The name of an environment variable like JUDGE_API_KEY, not a key. */
  readonly apiKeyEnv?: string | undefined;
}

/** How versions are published, and how engines come by them. Version 0 is model.path, which each of them reads by itself. */
export interface PublishedWeightsSettings {
  /** The type of published weights. What the trainer keeps for itself stays float32. Default "float32". */
  readonly dtype?: WeightsDtype | undefined;
  /** Most MiB of tensors in a file; a tensor that is larger has a file for itself. From 1 to 65,536. Default 1024. */
  readonly shardMib?: number | undefined;
  /** How engines come by published weights. Absent: folder. */
  readonly transport?: WeightTransport | undefined;
}

/** How engines come by published weights. Absent: folder. */
export type WeightTransport = "folder" | "stream" | "objectStore" | "broadcast";

/** How a trainer with several ranks holds the job's models and computes their passes. Anything but the defaults needs a trainer with the backend verl. */
export interface ShardingSettings {
  /** Ranks that compute a pass together, each some of its tokens, and in attention all of them for some of the heads (Ulysses). It divides the trainer's ranks and the heads of each of the job's models. From 1 to 64. Default 1. */
  readonly sequenceParallel?: number | undefined;
  /** Weights, gradients and optimizer state lie in the host's memory, and optimizer steps are computed there; a layer's weights are on the GPU while it computes. Default false. */
  readonly offload?: boolean | undefined;
}
