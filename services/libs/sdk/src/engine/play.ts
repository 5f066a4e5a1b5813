// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, WhetstoneError } from "@whetstone/core";
import type { BaseAgent } from "../base-agent.ts";
import { type Environment, isDone, type StepResult } from "../base-env.ts";
import { resetEnvironment, stepEnvironment } from "../environment-values.ts";
import { EpisodeError, type TerminationReason } from "../failure.ts";
import type { ImagePart } from "../images.ts";
import type { ModelAnswer, RolloutClient } from "../rollout-client.ts";
import type { Action, ChatMessage, Step } from "../types.ts";
import { askedOfCalls, callRemainingMs, checkIds, promptOf } from "./model-options.ts";
import { noteAnswer } from "./note-answer.ts";
import type { EngineSettings, EpisodeRun } from "./options.ts";
import type { PhaseClock } from "./phase-clock.ts";
import { TokenBudget } from "./token-budget.ts";
import type { SeenImages } from "./seen-images.ts";
import { loopShare } from "./loop-share.ts";

/** The parts of one try. */
export interface PlayState {
  readonly run: EpisodeRun;
  readonly settings: EngineSettings;
  readonly agent: BaseAgent;
  readonly environment: Environment;
  readonly client: RolloutClient;
  readonly phases: PhaseClock;
  /** Steps that the model has answered, in order. */
  readonly steps: Step[];
  /** The newest observation. */
  observation: unknown;
  /** The pictures beside it, and all before them. */
  readonly images: SeenImages;
  /** The newest prompt. Agents may go on writing to its array: only its first `length` messages were asked. */
  asked?: { readonly messages: readonly ChatMessage[]; readonly length: number };
}

/** The agent loop. What is thrown has `phases.phase` as its place. */
export async function play(state: PlayState): Promise<TerminationReason> {
  const { settings } = state;
  const budget = new TokenBudget(tokenLimits(settings));
  await reset(state);
  for (let turn = 0; turn < settings.maxSteps; turn += 1) {
    if (budget.left <= 0) return "MAX_RESPONSE_LENGTH";
    const answer = await ask(state, budget);
    const wait = loopShare.next();
    if (wait !== undefined) await wait;
    checkIds(answer, settings);
    const tooLong = budget.count(answer.usage);
    if (tooLong !== undefined) return tooLong;
    const { action, step } = decide(state, answer);
    const result = await act(state, action);
    learn(state, step, result, budget);
    if (isDone(result)) return "ENV_DONE";
    if (budget.left <= 0) return "MAX_RESPONSE_LENGTH";
  }
  return "MAX_TURNS";
}

function tokenLimits({ maxPromptLength, maxResponseLength, enforceMaxPromptLength }: EngineSettings) {
  return { maxPromptLength, maxResponseLength, eachStep: enforceMaxPromptLength };
}

async function reset(state: PlayState): Promise<void> {
  const { run, agent, environment, phases, settings } = state;
  const options = { seed: run.seed, signal: run.signal };
  const { observation, images, info } = await phases.run("reset", () => resetEnvironment(environment, options));
  see(state, observation, images);
  byAgent(() => {
    agent.reset();
    agent.lookAt?.(state.images.newest);
    agent.updateFromEnv(observation, 0, false, { ...info, maxSteps: settings.maxSteps, curTokens: 0 });
  });
}

function ask(state: PlayState, budget: TokenBudget): Promise<ModelAnswer> {
  const { run, settings, agent, client, phases, steps } = state;
  const { samplingParams: sampling, role } = settings;
  return phases.run("model", () => {
    const messages = promptOf(
      byAgent(() => agent.chatCompletions),
      settings,
    );
    state.asked = { messages, length: messages.length };
    return client.chat(messages, {
      sampling,
      maxTokens: Math.min(budget.left, sampling.maxTokens ?? Number.POSITIVE_INFINITY),
      maxPromptTokens: budget.promptLimit,
      seed: deriveSeed(run.seed, steps.length),
      role,
      tools: agent.tools === undefined ? undefined : byAgent(() => agent.tools?.()),
      ...askedOfCalls(settings),
      signal: phases.signal,
      remainingMs: callRemainingMs(run.remainingMs(), settings),
    });
  });
}

function decide(state: PlayState, answer: ModelAnswer): { action: unknown; step: Step } {
  const { agent } = state;
  try {
    const { action } = byAgent((): Action => agent.updateFromModel(answer.text, answer));
    const step = record(state, answer);
    if (step !== undefined) return { action, step };
  } catch (error) {
    record(state, answer); // What the agent noted before it gave up belongs to the trajectory.
    throw error;
  }
  throw new EpisodeError("TASK", "the agent opened no step for the model's answer: updateFromModel must add one");
}

function record({ agent, steps, asked, observation, images }: PlayState, answer: ModelAnswer): Step | undefined {
  const step = agent.getCurrentState();
  if (step === undefined || step === steps.at(-1)) return undefined;
  step.observation ??= observation;
  if (images.newest.length > 0) step.images ??= images.newest;
  noteAnswer(step, asked?.messages.slice(0, asked.length) ?? [], answer);
  steps.push(step);
  return step;
}

function act({ environment, phases, run }: PlayState, action: unknown): Promise<StepResult> {
  return phases.run("step", () => stepEnvironment(environment, action, { signal: run.signal }));
}

/** The engine itself completes the step, whatever the agent does with the observation. */
function learn(state: PlayState, step: Step, result: StepResult, budget: TokenBudget): void {
  const { observation, images, reward = 0, info } = result;
  see(state, observation, images);
  step.reward = reward;
  step.done = isDone(result);
  step.info = info;
  const agentInfo = { ...info, maxSteps: state.settings.maxSteps, curTokens: budget.used };
  byAgent(() => {
    state.agent.lookAt?.(state.images.newest);
    state.agent.updateFromEnv(observation, reward, step.done, agentInfo);
  });
}

function see(state: PlayState, observation: unknown, images: readonly ImagePart[] | undefined): void {
  state.observation = observation;
  state.images.add(images);
}

/** The agent's own code failing is no passing fault: the same task fails again, so it is a broken task, not a retry. */
function byAgent<T>(fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    if (error instanceof WhetstoneError) throw error;
    const message = `the agent failed: ${error instanceof Error ? error.message : String(error)}`;
    throw new EpisodeError("TASK", message, { cause: error });
  }
}
