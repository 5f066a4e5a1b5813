// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, WhetstoneError } from "@whetstone/core";
import type { BaseAgent } from "../base-agent.ts";
import { type Environment, isDone, type StepResult } from "../base-env.ts";
import { resetEnvironment, stepEnvironment } from "../environment-values.ts";
import { EpisodeError, type TerminationReason } from "../failure.ts";
import type { ModelAnswer, RolloutClient } from "../rollout-client.ts";
import type { Action, ChatMessage, Step } from "../types.ts";
import { askedOfCalls, callRemainingMs, checkIds, promptOf } from "./model-options.ts";
import { noteAnswer } from "./note-answer.ts";
import type { EngineSettings, EpisodeRun } from "./options.ts";
import type { PhaseClock } from "./phase-clock.ts";
import { TokenBudget } from "./token-budget.ts";
import { turns } from "./turns.ts";

/** The parts of one try. */
export interface Table {
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
  /** The newest prompt. Agents may go on writing to its array: only its first `length` messages were asked. */
  asked?: { readonly messages: readonly ChatMessage[]; readonly length: number };
}

/** The agent loop. What is thrown has `phases.phase` as its place. */
export async function play(table: Table): Promise<TerminationReason> {
  const { settings } = table;
  const budget = new TokenBudget(tokenLimits(settings));
  await reset(table);
  for (let turn = 0; turn < settings.maxSteps; turn += 1) {
    if (budget.left <= 0) return "MAX_RESPONSE_LENGTH";
    const answer = await ask(table, budget);
    const turn = turns.next();
    if (turn !== undefined) await turn;
    checkIds(answer, settings);
    const tooLong = budget.count(answer.usage);
    if (tooLong !== undefined) return tooLong;
    const { action, step } = decide(table, answer);
    const result = await act(table, action);
    learn(table, step, result, budget);
    if (isDone(result)) return "ENV_DONE";
    if (budget.left <= 0) return "MAX_RESPONSE_LENGTH";
  }
  return "MAX_TURNS";
}

function tokenLimits({ maxPromptLength, maxResponseLength, enforceMaxPromptLength }: EngineSettings) {
  return { maxPromptLength, maxResponseLength, eachStep: enforceMaxPromptLength };
}

async function reset(table: Table): Promise<void> {
  const { run, agent, environment, phases, settings } = table;
  const options = { seed: run.seed, signal: run.signal };
  const { observation, info } = await phases.run("reset", () => resetEnvironment(environment, options));
  table.observation = observation;
  byAgent(() => {
    agent.reset();
    agent.updateFromEnv(observation, 0, false, { ...info, maxSteps: settings.maxSteps, curTokens: 0 });
  });
}

function ask(table: Table, budget: TokenBudget): Promise<ModelAnswer> {
  const { run, settings, agent, client, phases, steps } = table;
  const { samplingParams: sampling, role } = settings;
  return phases.run("model", () => {
    const messages = promptOf(
      byAgent(() => agent.chatCompletions),
      settings,
    );
    table.asked = { messages, length: messages.length };
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

function decide(table: Table, answer: ModelAnswer): { action: unknown; step: Step } {
  const { agent } = table;
  try {
    const { action } = byAgent((): Action => agent.updateFromModel(answer.text, answer));
    const step = record(table, answer);
    if (step !== undefined) return { action, step };
  } catch (error) {
    record(table, answer); // What the agent noted before it gave up belongs to the trajectory.
    throw error;
  }
  throw new EpisodeError("TASK", "the agent opened no step for the model's answer: updateFromModel must add one");
}

function record({ agent, steps, asked }: Table, answer: ModelAnswer): Step | undefined {
  const step = agent.getCurrentState();
  if (step === undefined || step === steps.at(-1)) return undefined;
  noteAnswer(step, asked?.messages.slice(0, asked.length) ?? [], answer);
  steps.push(step);
  return step;
}

function act({ environment, phases, run }: Table, action: unknown): Promise<StepResult> {
  return phases.run("step", () => stepEnvironment(environment, action, { signal: run.signal }));
}

/** The engine itself completes the step, whatever the agent does with the observation. */
function learn(table: Table, step: Step, result: StepResult, budget: TokenBudget): void {
  const { observation, reward = 0, info } = result;
  table.observation = observation;
  step.reward = reward;
  step.done = isDone(result);
  step.info = info;
  const agentInfo = { ...info, maxSteps: table.settings.maxSteps, curTokens: budget.used };
  byAgent(() => {
    table.agent.updateFromEnv(observation, reward, step.done, agentInfo);
  });
}

/** The agent's own code failing is no weather: the same task fails again, so it is a broken task, not a retry. */
function byAgent<T>(fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    if (error instanceof WhetstoneError) throw error;
    const message = `the agent failed: ${error instanceof Error ? error.message : String(error)}`;
    throw new EpisodeError("TASK", message, { cause: error });
  }
}
