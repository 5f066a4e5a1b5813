// SPDX-License-Identifier: Apache-2.0
export { ConfigError, deriveSeed, type ErrorCode, type Violation, WhetstoneError } from "@whetstone/core";
export { BOXED_INSTRUCTION, MathAgent, type MathAgentOptions } from "./agents/math-agent.ts";
export { type SplitAnswer, splitThinking } from "./agents/thinking.ts";
export { BaseAgent } from "./base-agent.ts";
export * from "./base-env.ts";
export * from "./browser/browser-task.ts";
export { beginBrowserTask, checkPage, servePage } from "./browser/browser-task-values.ts";
export { type ImagePart, imageFault, MAX_IMAGES, type SeenImage } from "./images.ts";
export { gradeEnvironment, isReward, jsonFault, resetEnvironment, stepEnvironment } from "./environment-values.ts";
export {
  BEGUN,
  ChatClient,
  type ChatClientOptions,
  type ChatPlace,
  type MovingSession,
  createChatPool,
  refusal,
  sendWithRetry,
} from "./chat/chat-client.ts";
export { ConnectionPool, type ConnectionPoolOptions } from "./chat/connection-pool.ts";
export { type ChatPool, ConnectionError, type HttpAnswer, type HttpRequest } from "./chat/http-exchange.ts";
export { AgentExecutionEngine, type ModeOptions, type RunOptions } from "./engine/agent-execution-engine.ts";
export type { BatchOptions } from "./engine/batch.ts";
export type {
  AgentExecutionEngineOptions,
  AgentFactory,
  EnvironmentFactory,
  EpisodeRequest,
  EpisodeRun,
} from "./engine/options.ts";
export type { PhaseTimeouts } from "./engine/phase-clock.ts";
export * from "./engine/results.ts";
export type { TokenBreak } from "./engine/token-rows.ts";
export type { TokenLimits } from "./engine/token-budget.ts";
export { type LakeState, legalMoves, startGame } from "./frozenlake/game.ts";
export { type Cell, type Direction, generateMap, type LakeMap, type MapOptions } from "./frozenlake/map.ts";
export { renderCompact } from "./frozenlake/render.ts";
export { frozenLakeAgent } from "./frozenlake/agents.ts";
export { frozenLake, FrozenLakeEnv, type FrozenLakeOptions } from "./frozenlake/environment.ts";
export { type ReviseOptions, RevisingEnvironment } from "./environments/revising.ts";
export { MultiTurnEnvironment, type MultiTurnOptions, questionOf, type Turn } from "./environments/multi-turn.ts";
export { SingleTurnEnvironment, type SingleTurnOptions } from "./environments/single-turn.ts";
export { compareReports, type Comparison, type PairedScore, type TaskPair } from "./evaluation/compare.ts";
export { type Estimate, type Part, shareOverTasks } from "./evaluation/intervals.ts";
export * from "./evaluation/report.ts";
export { type PassAtK, type Score, scoreTasks, type TaskScore } from "./evaluation/score.ts";
export {
  classify,
  EpisodeError,
  type Failure,
  type FailureClass,
  isRetried,
  isScored,
  NO_FAILURE,
  type Phase,
  PromptTooLongError,
  TERMINATION_REASONS,
  type TerminationReason,
} from "./failure.ts";
export type { DeadlinePolicy } from "./job/generated/settings.ts";
export type { Use } from "./job/actor.ts";
export { AgentTrainer, type AgentTrainerOfJob, type AgentTrainerSettings } from "./job/agent-trainer.ts";
export { type AlgorithmSettings, dpo, ipo, policyGradient, sft } from "./job/algorithm.ts";
export {
  cispo,
  dapo,
  distill,
  drGrpo,
  grpo,
  gspo,
  opo,
  ppo,
  raft,
  remax,
  reinforce,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  rloo,
  sapo,
} from "./job/recipes.ts";
export type { DatasetLike, DatasetOrder, DatasetSettings, DatasetSource } from "./job/dataset.ts";
export { defineJob, type JobDefinition, type JobOptions, type Validation } from "./job/define-job.ts";
export type { JobDocument } from "./job/document.ts";
export type { Duration } from "./job/duration.ts";
export type {
  BatchingSettings,
  CriticSettings,
  ExternalModelSettings,
  GroupPolicy,
  PolicyGradientSettings,
  LimitSettings,
  LoopSettings,
  LoraSettings,
  LossAggregation,
  OptimizerSettings,
  PhaseTimeoutSettings,
  RoleSettings,
  SamplingSettings,
  SftSettings,
  ValidationSettings,
  VariantSettings,
} from "./job/generated/settings.ts";
export type * from "./job/training.ts";
export * from "./environments/reward-function.ts";
export { computePassAtK, passAtK, type TaskAttempts } from "@whetstone/core";
export {
  type AgentDefinition,
  defineAgent,
  defineEnvironment,
  defineRollout,
  type EnvironmentClass,
  type EnvironmentDefinition,
  type EnvironmentLike,
  type Form,
  type ParseArgs,
  type RegisteredAgent,
  type RegisteredEnvironment,
  type RegisteredRollout,
  type RolloutDefinition,
} from "./define.ts";
export { type ActorLike, type AgentClass, type ModuleContents, readModule, type WorkflowClass } from "./read-module.ts";
export { createRegistry, type Registry } from "./registry.ts";
export { RecordedClient, type RecordedAnswer, recordedAnswers } from "./replay/recorded-client.ts";
export { computeMcReturns, computeTrajectoryReward } from "./rewards.ts";
export { commandAgent, commandAgentIn, type RunSandboxed, type SandboxedCommand } from "./rollout/command.ts";
export { codingCliAgentIn } from "./rollout/coding-cli.ts";
export { defineHarness, type Harness, type HarnessDefinition } from "./rollout/harness.ts";
export { httpAgent } from "./rollout/http.ts";
export type { Launch, ProgramEnd } from "./rollout/run-program.ts";
export type * from "./rollout/rollout.ts";
export type * from "./rollout-client.ts";
export * from "./types.ts";
export { AgentWorkflowEngine } from "./workflow/agent-workflow-engine.ts";
export * from "./workflow/built-in.ts";
export type * from "./workflow/context.ts";
export * from "./workflow/define-workflow.ts";
export type { AgentWorkflowEngineOptions, ClientSource, EnvironmentOpener } from "./workflow/options.ts";
export { adjustStepRewards, type StepRewardOptions } from "./workflow/rewards.ts";
export { TerminationEvent, type WorkflowEnd } from "./workflow/termination.ts";
export type { Committable } from "./workflow/trajectory-book.ts";
export { Workflow, type WorkflowOutcome, type WorkflowResult } from "./workflow/workflow.ts";
