// SPDX-License-Identifier: Apache-2.0
import type { BaseAgent } from "../base-agent.ts";
import type { Awaitable } from "../base-env.ts";
import type { EnvironmentLike, RegisteredAgent } from "../define.ts";
import type { EnvironmentFactory } from "../engine/options.ts";
import { EpisodeError } from "../failure.ts";
import { type AgentClass, asRegisteredAgent } from "../read-module.ts";
import type { ChatMessage, Info, Task } from "../types.ts";
import type { AgentPlay, AgentPlayOptions, WorkflowContext } from "./context.ts";
import { TerminationEvent } from "./termination.ts";
import { Workflow, type WorkflowResult } from "./workflow.ts";

export interface SimpleWorkflowOptions {
  /** Of the model's answer. What it throws is the grader's failure. */
  readonly rewardFunction: (task: Task, answer: string) => Awaitable<number | { reward: number; isCorrect?: boolean }>;
  /** Default "agent". */
  readonly role?: string | undefined;
}

/** One question, one answer, one reward. The task's payload has `messages`, `question`, `prompt` or `problem`. */
export class SimpleWorkflow extends Workflow {
  readonly #options: SimpleWorkflowOptions;

  constructor(options: SimpleWorkflowOptions) {
    super();
    this.#options = options;
  }

  async run(task: Task, { score }: WorkflowContext): Promise<WorkflowResult> {
    const { rewardFunction, role = "agent" } = this.#options;
    const { step, text } = await this.chat(role, messagesOf(task));
    const graded = await score(() => rewardFunction(task, text));
    const { reward, isCorrect } = typeof graded === "number" ? { reward: graded } : graded;
    this.commit(role, [step], reward);
    return { isCorrect };
  }
}

function messagesOf({ payload }: Task): readonly ChatMessage[] {
  const { messages, question, prompt, problem } = payload;
  if (Array.isArray(messages)) return messages as ChatMessage[];
  const content = [question, prompt, problem].find((text) => typeof text === "string");
  if (content === undefined) {
    throw new EpisodeError("TASK", "the task's payload needs messages, question, prompt or problem");
  }
  return [{ role: "user", content }];
}

export interface AgentWorkflowOptions {
  readonly agent: AgentClass | RegisteredAgent;
  readonly agentArgs?: Info | undefined;
  /** As `openEnvironment` takes it. Default: the job's own. */
  readonly environment?: string | EnvironmentLike | EnvironmentFactory | undefined;
  /** The task's payload is merged over them. */
  readonly environmentArgs?: Info | undefined;
  readonly role?: string | undefined;
}

abstract class AgentWorkflow extends Workflow {
  readonly #options: AgentWorkflowOptions;

  constructor(options: AgentWorkflowOptions) {
    super();
    this.#options = options;
  }

  protected async playOnce(task: Task, options: AgentPlayOptions): Promise<AgentPlay> {
    const { agent, agentArgs = {}, environment, environmentArgs, role } = this.#options;
    const made: BaseAgent = asRegisteredAgent(agent).create(agentArgs);
    const opened = await this.openEnvironment(environment, { ...environmentArgs, ...task.payload });
    return this.playAgent(made, { ...options, role, environment: opened });
  }
}

/** An agent answers once, an environment scores it. */
export class SingleTurnWorkflow extends AgentWorkflow {
  async run(task: Task): Promise<void> {
    const { reason } = await this.playOnce(task, { maxSteps: 1 });
    if (reason !== "MAX_TURNS") endWith(reason); // One turn is all there is: it is done.
  }
}

export interface MultiTurnWorkflowOptions extends AgentWorkflowOptions {
  /** Default 5. */
  readonly maxSteps?: number | undefined;
}

const DEFAULT_STEPS = 5;

/** An agent and an environment take turns; each call has the whole budget, and an answer that is cut ends the episode. */
export class MultiTurnWorkflow extends AgentWorkflow {
  protected readonly budgetPerCall: boolean = true;
  readonly #maxSteps: number;

  constructor(options: MultiTurnWorkflowOptions) {
    super(options);
    this.#maxSteps = options.maxSteps ?? DEFAULT_STEPS;
  }

  async run(task: Task): Promise<void> {
    const { reason } = await this.playOnce(task, { maxSteps: this.#maxSteps, budgetPerCall: this.budgetPerCall });
    endWith(reason);
  }
}

/** As MultiTurnWorkflow for agents that keep their whole conversation: one budget for all that follows the first prompt. */
export class CumulativeWorkflow extends MultiTurnWorkflow {
  protected override readonly budgetPerCall = false;
}

function endWith(reason: AgentPlay["reason"]): void {
  if (reason !== "ENV_DONE") throw new TerminationEvent(reason);
}
