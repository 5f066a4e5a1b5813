// SPDX-License-Identifier: Apache-2.0
import type { BaseAgent } from "../base-agent.ts";
import { type Environment, isDone } from "../base-env.ts";
import { score } from "../engine/attempt.ts";
import { PhaseClock } from "../engine/phase-clock.ts";
import { play, type PlayState } from "../engine/play.ts";
import { SeenImages } from "../engine/seen-images.ts";
import { PromptTooLongError } from "../failure.ts";
import type { RolloutClient } from "../rollout-client.ts";
import type { AgentPlay, AgentPlayOptions, OpenedEnvironment } from "./context.ts";
import { ManagedEnvironment } from "./managed-environment.ts";
import type { WorkflowAttempt } from "./workflow-attempt.ts";
import type { WorkflowEnd } from "./termination.ts";
import type { TrajectoryBook } from "./trajectory-book.ts";

interface Stage {
  readonly attempt: WorkflowAttempt;
  readonly book: TrajectoryBook<unknown>;
}

interface Options extends AgentPlayOptions {
  readonly environment: OpenedEnvironment;
}

/** AgentExecutionEngine's loop as a part of a workflow. What was played is committed even when it fails. */
export async function playAgent({ attempt, book }: Stage, agent: BaseAgent, options: Options): Promise<AgentPlay> {
  const { role = "agent", environment } = options;
  using phases = new PhaseClock(attempt.signal, attempt.settings.phaseTimeoutsMs);
  const openedMs = environment instanceof ManagedEnvironment ? environment.takeOpenedMs() : 0;
  phases.environmentMs = openedMs;
  const cut = new CutWatch();
  const state = preparePlay(attempt, agent, { ...options, role, phases, cut });
  try {
    const reason = cut.reasonOf(await playToEnd(state));
    await score(state, reason);
    return { reason, trajectory: book.commit(role, state.steps) };
  } catch (error) {
    book.commit(role, state.steps);
    throw attempt.places.mark(error, phases.phase);
  } finally {
    attempt.addTimes({ modelMs: phases.modelMs, environmentMs: phases.environmentMs - openedMs });
    for (const step of state.steps) attempt.answered(step, state.client);
  }
}

interface Parts extends Options {
  readonly role: string;
  readonly phases: PhaseClock;
  readonly cut: CutWatch;
}

function preparePlay(attempt: WorkflowAttempt, agent: BaseAgent, parts: Parts): PlayState {
  const { environment: opened, role, maxSteps = attempt.settings.maxSteps, budgetPerCall = false, phases, cut } = parts;
  const { enforceMaxPromptLength } = attempt.settings;
  const environment = opened instanceof ManagedEnvironment ? opened.inner : opened;
  const client = attempt.clientOf(role);
  const noFactory = (): never => {
    throw new Error("the environment is open already");
  };
  const budgets = { role, maxSteps, enforceMaxPromptLength: enforceMaxPromptLength || budgetPerCall };
  return {
    run: { ...attempt.run, signal: phases.signal },
    settings: { ...attempt.settings, ...budgets, environmentFactory: noFactory },
    agent,
    environment: budgetPerCall ? cut.environment(environment) : environment,
    client: budgetPerCall ? cut.client(client) : client,
    phases,
    steps: [],
    observation: "",
    images: new SeenImages(),
  };
}

async function playToEnd(state: PlayState): Promise<WorkflowEnd> {
  try {
    return (await play(state)) as WorkflowEnd;
  } catch (error) {
    if (error instanceof PromptTooLongError) return "MAX_PROMPT_LENGTH";
    throw error;
  }
}

/** Ends the play when an answer was cut by its token limit, after the environment has seen it. */
class CutWatch {
  #cut = false;
  #done = false;

  client(client: RolloutClient): RolloutClient {
    const chat: RolloutClient["chat"] = async (messages, options) => {
      const answer = await client.chat(messages, options);
      this.#cut = answer.finishReason === "length";
      return answer;
    };
    return { chat };
  }

  environment(inner: Environment): Environment {
    const computeFinalReward = inner.computeFinalReward?.bind(inner);
    return {
      reset: (options) => inner.reset(options),
      step: async (action, options) => {
        const result = await inner.step(action, options);
        this.#done = isDone(result);
        return this.#cut ? { ...result, truncated: true } : result;
      },
      close: () => inner.close(),
      ...(computeFinalReward === undefined ? {} : { computeFinalReward }),
    };
  }

  reasonOf(reason: WorkflowEnd): WorkflowEnd {
    return reason === "ENV_DONE" && this.#cut && !this.#done ? "MAX_RESPONSE_LENGTH" : reason;
  }
}
