// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import {
  type Awaitable,
  BaseEnv,
  grade,
  type ImagePart,
  type Info,
  MAX_IMAGES,
  questionOf,
  type ResetResult,
  type RewardFunction,
  type StepOptions,
  type StepResult,
} from "@whetstone/sdk";
import type { Tool } from "./tool.ts";
import { type ParsedToolCall, type ToolLimits, type ToolOutput, ToolRegistry } from "./tool-registry.ts";

export interface ToolEnvironmentOptions extends ToolLimits {
  /** JSON values; `question` is what the agent sees of it. */
  readonly task: Info;
  /**
   * A function is called at reset, where it may fail with a class: to open a corpus or a connection. Tools that it made belong to
   * the episode: those with an `AsyncDisposable`'s method are closed with the environment.
   */
  readonly tools: readonly Tool[] | (() => Awaitable<readonly Tool[]>);
  /** Judges the final answer; "" where the turns were used up without one. */
  readonly rewardFunction: RewardFunction;
  /** Turns. Default 10. */
  readonly maxSteps?: number | undefined;
}

/** What the agent sees after its calls. */
export interface ToolOutputs {
  readonly toolOutputs: readonly ToolOutput[];
}

/** A call of this name ends the episode with its argument `response`. */
export const FINISH = "finish";

/**
 * Runs the calls of a turn, side by side, until the agent gives its final answer. Actions: a list of calls
 * (`ParsedToolCall[]`), or a text, which is the final answer; a call whose tool returns a `FinalOutput` is one
 * too. Reset's `info` says what may be called (`tools`) and how many turns there are (`turns`). What the model got wrong
 * (unknown tool, arguments that the schema refuses, unreadable call) is an output for it to read, not a failure.
 */
export class ToolEnvironment extends BaseEnv {
  readonly #options: ToolEnvironmentOptions;
  readonly #task: Info;
  readonly #opened = new AsyncDisposableStack();
  #registry: ToolRegistry | undefined;
  #info: Info = {};
  #turns = 0;
  #calls = 0;
  #errors = 0;

  constructor(options: ToolEnvironmentOptions) {
    super();
    this.#options = options;
    this.#task = structuredClone(options.task);
  }

  async reset(): Promise<ResetResult> {
    const { tools } = this.#options;
    const opened = typeof tools === "function" ? await tools() : [];
    for (const tool of opened) if (isDisposable(tool)) this.#opened.use(tool);
    const all = typeof tools === "function" ? opened : tools;
    const registry = new ToolRegistry(all);
    this.#info = Object.assign({}, ...all.map(({ info }) => info)) as Info;
    this.#registry = registry;
    this.#turns = this.#calls = this.#errors = 0;
    return { observation: questionOf(this.#task), info: { tools: registry.specs, turns: this.#maxSteps } };
  }

  override async close(): Promise<void> {
    await this.#opened.disposeAsync();
  }

  async step(action: unknown, options: StepOptions = {}): Promise<StepResult> {
    const registry = this.#registry;
    if (registry === undefined)
      throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first, and none follows the end");
    this.#turns += 1;
    const answer = finalAnswer(action);
    if (answer !== undefined) return this.#finish(answer, true, options);
    const outputs = await registry.runAll(callsOf(action), options.signal, this.#options);
    this.#calls += outputs.length;
    this.#errors += outputs.filter(({ isError }) => isError).length;
    const final = outputs.find(({ isFinal = false }) => isFinal);
    if (final !== undefined) return this.#finish(final.output, true, options);
    if (this.#turns >= this.#maxSteps) return this.#finish("", false, options);
    const { texts, images } = split(outputs);
    const observation: ToolOutputs = { toolOutputs: texts };
    return { observation, images, reward: 0, terminated: false, truncated: false, info: this.#counts() };
  }

  async #finish(answer: string, terminated: boolean, options: StepOptions): Promise<StepResult> {
    const { reward, isCorrect, metadata } = await grade(this.#options.rewardFunction, this.#task, answer, options);
    this.#registry = undefined;
    const info = { ...metadata, ...this.#counts(), success: isCorrect };
    return { observation: {}, reward, terminated, truncated: !terminated, info };
  }

  get #maxSteps(): number {
    return this.#options.maxSteps ?? 10;
  }

  #counts(): Info {
    return { ...this.#info, toolCalls: this.#calls, toolErrors: this.#errors };
  }
}

/** Outputs as text, and their pictures in order. Of what is too much for one observation the model is told. */
function split(outputs: readonly ToolOutput[]) {
  const images: ImagePart[] = [];
  const texts = outputs.map(({ images: shown = [], ...output }): ToolOutput => {
    if (images.length + shown.length > MAX_IMAGES)
      return {
        ...output,
        output: `${output.output}\n(its pictures are left out: ${MAX_IMAGES} at most are shown a turn)`,
      };
    images.push(...shown);
    return output;
  });
  return { texts, images };
}

function isDisposable(tool: Tool): tool is Tool & AsyncDisposable {
  return Symbol.asyncDispose in tool;
}

/** Undefined while there are calls to run. */
function finalAnswer(action: unknown): string | undefined {
  if (typeof action === "string") return action;
  const calls = callsOf(action);
  const finish = calls.find(({ name, problem }) => name === FINISH && problem === undefined);
  if (finish !== undefined) return responseOf(finish.argumentsJson);
  return calls.length === 0 ? "" : undefined;
}

/** `{"response": …}`, or whatever else the model put there. */
function responseOf(json: string): string {
  try {
    const args: unknown = JSON.parse(json);
    const response: unknown = typeof args === "object" && args !== null ? (args as Info)["response"] : args;
    return typeof response === "string" ? response : response === undefined ? "" : JSON.stringify(response);
  } catch {
    return json;
  }
}

/** Whatever came over the wire, as calls; entries that are none are left out. */
function callsOf(action: unknown): ParsedToolCall[] {
  if (!Array.isArray(action)) return [];
  return action.flatMap((call: unknown, i): ParsedToolCall[] => {
    if (typeof call !== "object" || call === null) return [];
    const { id = `call_${i}`, name = "", argumentsJson = "{}", problem } = call as Record<string, unknown>;
    const parsed = { id: text(id), name: text(name), argumentsJson: text(argumentsJson) };
    return [problem === undefined ? parsed : { ...parsed, problem: text(problem) }];
  });
}

function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
