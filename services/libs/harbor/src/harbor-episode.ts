// SPDX-License-Identifier: Apache-2.0
import { ConfigError, WhetstoneError } from "@whetstone/core";
import { EpisodeError, type Info, type RewardOutput, type StepOptions } from "@whetstone/sdk";
import { ofThePlatform, type Toolset, toolsOf } from "@whetstone/swe";
import { FinalOutput, Tool, type ToolRunOptions } from "@whetstone/tools";
import type { HarborTask } from "./task-folder.ts";
import { type HarborDeps, TaskSandbox, type TaskSandboxOptions } from "./task-sandbox.ts";
import { verify, type VerifyOptions } from "./verify.ts";

export interface HarborEpisodeOptions {
  readonly task: HarborTask;
  readonly toolset: Toolset;
  readonly commandTimeoutMs: number;
  readonly maxOutputBytes: number;
  readonly sandbox: Omit<TaskSandboxOptions, "signal">;
  readonly grading: Omit<VerifyOptions, "signal" | "environment">;
}

/** One try at a task: the agent's commands and then the tests, in one sandbox, as Harbor has it. */
export class HarborEpisode {
  readonly #options: HarborEpisodeOptions;
  #shell: TaskSandbox | undefined;

  constructor(options: HarborEpisodeOptions) {
    this.#options = options;
  }

  /** What the agent may call. Closing the first of them closes the sandbox. @throws EpisodeError */
  async open(deps: HarborDeps, signal?: AbortSignal): Promise<readonly Tool[]> {
    const { task, toolset, commandTimeoutMs: timeoutMs, maxOutputBytes, sandbox, grading } = this.#options;
    const shell = await ofThePlatform(() => TaskSandbox.open(deps, task, { ...sandbox, signal })).catch(asBroken);
    this.#shell = shell;
    const place = `in ${task.workdir}`;
    const tools = toolsOf(toolset, shell, { timeoutMs, maxOutputBytes, reach: sandbox.reach, place });
    const { timeout_sec: seconds } = task.config.agent;
    if (seconds === undefined) return tools;
    const endsAt = performance.now() + seconds * (grading.timeoutMultiplier ?? 1) * 1000;
    return tools.map((tool) => new TimedTool(tool, endsAt));
  }

  /** Judges what the agent has left. @throws EpisodeError */
  async grade({ signal }: StepOptions = {}): Promise<RewardOutput> {
    const shell = this.#shell;
    if (shell === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "the episode is not open yet");
    const { task, grading, sandbox } = this.#options;
    const { environment } = sandbox;
    return await ofThePlatform(() => verify(shell, task, { ...grading, environment, signal }));
  }
}

function asBroken(error: unknown): never {
  if (error instanceof ConfigError) throw new EpisodeError("TASK", error.message, { cause: error });
  throw error;
}

/** When the agent's time is over its next call ends the episode, and what it has left is judged, as Harbor does. */
class TimedTool extends Tool implements AsyncDisposable {
  readonly name: string;
  readonly description: string;
  readonly parameters: Info;
  override readonly info: Info;
  readonly #tool: Tool;
  readonly #endsAt: number;

  constructor(tool: Tool, endsAt: number) {
    super();
    this.name = tool.name;
    this.description = tool.description;
    this.parameters = tool.parameters;
    this.info = tool.info;
    this.#tool = tool;
    this.#endsAt = endsAt;
  }

  async run(args: Info, { signal, ...options }: ToolRunOptions) {
    const leftMs = this.#endsAt - performance.now();
    const over = new FinalOutput("the agent's time is over (task.toml: agent.timeout_sec)");
    if (leftMs <= 0) return over;
    const timeUp = AbortSignal.timeout(Math.ceil(leftMs));
    try {
      return await this.#tool.run(args, { ...options, signal: AbortSignal.any([signal, timeUp]) });
    } catch (error) {
      if (timeUp.aborted && !signal.aborted) return over;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (Symbol.asyncDispose in this.#tool) await (this.#tool as Tool & AsyncDisposable)[Symbol.asyncDispose]();
  }
}
