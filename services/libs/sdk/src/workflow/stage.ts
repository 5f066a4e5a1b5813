// SPDX-License-Identifier: Apache-2.0
import { raceSignal, WhetstoneError } from "@whetstone/core";
import type { BaseAgent } from "../base-agent.ts";
import type { Awaitable, Environment } from "../base-env.ts";
import type { EnvironmentLike } from "../define.ts";
import { askedOfCalls, callRemainingMs, checkIds, promptOf } from "../engine/model-options.ts";
import { noteAnswer } from "../engine/note-answer.ts";
import type { EnvironmentFactory } from "../engine/options.ts";
import { loopShare } from "../engine/loop-share.ts";
import { asRegisteredEnvironment, isEnvironmentClass } from "../read-module.ts";
import type { ChatOptions, ModelEndpoint } from "../rollout-client.ts";
import { type ChatMessage, createStep, type Info, type Task } from "../types.ts";
import type { AgentPlay, AgentPlayOptions, OpenEnvironment, RoleAnswer, RoleChat, RoleChatOptions } from "./context.ts";
import { playAgent } from "./play-agent.ts";
import type { WorkflowAttempt } from "./workflow-attempt.ts";
import { TerminationEvent } from "./termination.ts";
import { TrajectoryBook } from "./trajectory-book.ts";
import {
  bindWorkflow,
  type Workflow,
  type WorkflowOutcome,
  type WorkflowResult,
  type WorkflowStage,
} from "./workflow.ts";

/** One workflow's view of its try. */
export class Stage implements WorkflowStage {
  readonly attempt: WorkflowAttempt;
  readonly task: Task;
  readonly book: TrajectoryBook<Workflow>;
  readonly #workflow: Workflow;

  constructor(attempt: WorkflowAttempt, workflow: Workflow, task: Task) {
    this.attempt = attempt;
    this.task = task;
    this.book = new TrajectoryBook(workflow, attempt.nextUid);
    this.#workflow = workflow;
    bindWorkflow(workflow, this);
  }

  get uid(): string {
    return this.attempt.run.id;
  }
  get seed(): number {
    return this.attempt.run.seed;
  }
  get try(): number {
    return this.attempt.run.try;
  }
  get signal(): AbortSignal {
    return this.attempt.signal;
  }
  get hasEnvironment(): boolean {
    return this.attempt.settings.environmentFactory !== undefined;
  }

  readonly remainingMs = (): number => this.attempt.run.remainingMs();

  readonly log = (message: string, fields: Info = {}): void => {
    this.attempt.settings.log(message, { episodeId: this.uid, ...fields });
  };

  readonly rollout =
    (role: string): RoleChat =>
    (messages, options) =>
      this.#chat(role, messages, options);

  readonly endpoint = (role = "agent"): ModelEndpoint => {
    const { endpoint } = this.attempt.clientOf(role);
    if (endpoint) return endpoint;
    throw new WhetstoneError(
      "UNSUPPORTED_SETTING",
      `the rollout client of role "${role}" has no endpoint to give away`,
    );
  };

  readonly openEndpoint = async (role = "agent"): Promise<ModelEndpoint> => {
    const client = this.attempt.clientOf(role);
    return client.openEndpoint ? await client.openEndpoint(this.signal) : this.endpoint(role);
  };

  readonly score = <T>(reward: () => Awaitable<T>): Promise<T> => this.attempt.phase("reward", reward);

  readonly openEnvironment: OpenEnvironment = (what, args = {}) => this.attempt.open(() => this.#make(what, args));

  /** Runs the workflow to its end; its failure is thrown. */
  async play(): Promise<WorkflowResult> {
    const running = (async () => this.#workflow.run(this.task, this))();
    return (await raceSignal(running, this.attempt.run.signal)) ?? {};
  }

  async playAgent(agent: BaseAgent, options: AgentPlayOptions): Promise<AgentPlay> {
    const environment = options.environment ?? (await this.openEnvironment());
    return playAgent(this, agent, { ...options, environment });
  }

  /** A TerminationEvent ends the sub-workflow alone; every other error is the parent's to handle. */
  async runWorkflow(child: Workflow, task: Task): Promise<WorkflowOutcome> {
    const stage = new Stage(this.attempt, child, task);
    let result: WorkflowResult = {};
    try {
      result = await stage.play();
    } catch (error) {
      if (!(error instanceof TerminationEvent)) throw error;
    } finally {
      child.collectTrajectories();
      this.book.join(stage.book);
    }
    return child.summarize(result);
  }

  async #chat(role: string, messages: readonly ChatMessage[], options: RoleChatOptions = {}): Promise<RoleAnswer> {
    const { attempt } = this;
    const { settings } = attempt;
    const step = createStep({ observation: messages.at(-1)?.content ?? "" });
    this.book.asked(role, step);
    const client = attempt.clientOf(role);
    const asked = promptOf(messages, settings);
    const chatOptions = this.#chatOptions(role, options);
    const bound = options.signal ? AbortSignal.any([options.signal, attempt.signal]) : attempt.signal;
    const ask = (signal: AbortSignal) => client.chat(asked, { ...chatOptions, signal });
    const answer = await attempt.phase("model", ask, { signal: bound });
    const wait = loopShare.next();
    if (wait !== undefined) await wait;
    if (attempt.isPolicy(role)) checkIds(answer, settings);
    noteAnswer(step, asked, answer);
    Object.assign(step, { modelResponse: answer.text, action: answer.text });
    this.book.answered(step);
    attempt.answered(step, client);
    return { ...answer, step };
  }

  /** The prompt's limit is that of each call; settings that only the policy's server may know are asked of it alone. */
  #chatOptions(role: string, options: RoleChatOptions): Omit<ChatOptions, "signal"> {
    const { attempt } = this;
    const { settings } = attempt;
    const { samplingParams, maxResponseLength, maxPromptLength } = settings;
    const sampling = { ...samplingParams, ...options.sampling };
    return {
      sampling,
      maxTokens: Math.min(maxResponseLength, options.maxTokens ?? sampling.maxTokens ?? maxResponseLength),
      maxPromptTokens: maxPromptLength,
      seed: options.seed ?? attempt.nextSeed(role),
      role,
      tools: options.tools,
      ...(attempt.isPolicy(role) ? askedOfCalls(settings) : {}),
      remainingMs: callRemainingMs(this.remainingMs(), settings),
    };
  }

  #make(
    what: string | EnvironmentLike | EnvironmentFactory | undefined,
    given: Info,
  ): Environment | Promise<Environment> {
    const { run, settings } = this.attempt;
    if (typeof what === "string") return settings.openByKind(what, given, run);
    if (typeof what === "function" && !isEnvironmentClass(what)) return what(given, run);
    if (what) return asRegisteredEnvironment(what).create(given);
    if (settings.environmentFactory === undefined) {
      throw new WhetstoneError(
        "TASK_INVALID",
        "environment.kind: the workflow needs an environment, the job names none",
      );
    }
    return settings.environmentFactory({ ...settings.environmentArgs, ...this.task.payload, ...given }, run);
  }
}
